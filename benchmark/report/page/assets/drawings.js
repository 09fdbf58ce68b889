"use strict";
/* Figures of analyses beside line charts: bars with whiskers, and heat maps, as text and boxes that need no canvas. */

const FULL_HEAT = 42; // percent of the accent under the largest value, on which text can still be read

function finite(values) {
  return values.flat(Infinity).filter((value) => typeof value === "number");
}


function barLine(series, place, name, scale) {
  const [value, low, high] = [series.value[place], series.low[place], series.high[place]];
  if (value === null) return null;
  const share = (end) => `${(100 * (end - scale[0])) / (scale[1] - scale[0] || 1)}%`;
  const filled = el("b");
  if (typeof value === "number") {
    const ends = [Math.min(0, value), Math.max(0, value)];
    filled.style.left = share(ends[0]);
    filled.style.width = `calc(${share(ends[1])} - ${share(ends[0])})`;
    filled.style.background = ink(series.look.colour);
  }
  const drawn = el("span", { class: "length", "aria-hidden": "true" }, filled);
  if (typeof low === "number" && typeof high === "number") {
    const whisker = el("i");
    whisker.style.left = share(low);
    whisker.style.width = `calc(${share(high)} - ${share(low)})`;
    drawn.append(whisker);
  }
  return el("tr", {}, el("th", { scope: "row" }, swatch(series.look), " ", series.name || name), el("td", {}, drawn), el("td", { class: "amount" }, number(value), " ", el("span", { class: "interval" }, interval(low, high))));
}

/* A table of bars: a block for each name, a line for each series. */
function barsDrawing(panel, axis) {
  const ends = finite(panel.series.map((series) => [series.value, series.low, series.high]));
  const scale = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const several = panel.series.length > 1 || panel.series[0]?.name;
  const numbered = panel.names.some((name) => name !== "" && !Number.isNaN(Number(name)));
  const blocks = panel.names.map((name, place) =>
    el("tbody", {},
      several && el("tr", { class: "name" }, el("th", { scope: "rowgroup", colspan: 3 }, numbered ? `${axis} ${name}` : name)),
      panel.series.map((series) => barLine(series, place, name, scale))),
  );
  return el("table", { class: "lengths" }, el("caption", {}, panel.title), blocks);
}

/* A table of figures, the larger the darker. */
function heatDrawing(panel) {
  const ends = finite(panel.value);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const grid = [];
  const rows = panel.down.map((name, line) => {
    const cells = panel.across.map((column, place) => {
      const value = panel.value[line][place];
      if (value === null) return el("td", {}, unseen("none"));
      const cell = tip(el("td", {}, number(value)), `${name}, ${column}: ${figureText(value, panel.low[line][place], panel.high[line][place])}`);
      const share = typeof value === "number" && most > least ? (value - least) / (most - least) : 0;
      cell.style.backgroundColor = `color-mix(in srgb, var(--accent) ${Math.round(share * FULL_HEAT)}%, var(--ground))`;
      return cell;
    });
    grid.push(cells);
    return el("tr", {}, el("th", { scope: "row" }, name), cells);
  });
  roving(grid);
  const heads = panel.across.map((name) => el("th", { scope: "col" }, name));
  return el("table", { class: "matrix heat" }, el("caption", { class: "unseen" }, panel.title || "Heat map"), el("thead", {}, el("tr", {}, el("td", { class: "corner" }), heads)), el("tbody", {}, rows));
}

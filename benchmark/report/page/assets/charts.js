"use strict";
/* Line charts and scatter plots by uPlot, with bands, markers, a readout of values, and the arrow keys as a pointer. */

const HEIGHT = 380;
const MOST_READ = 60;

function faint(colour, share) {
  return `color-mix(in srgb, ${colour} ${share}%, transparent)`;
}

/* Series of uPlot: of each line its value; where it is chosen, the ends of its band as well. */
function seriesOf(lines, joined) {
  const series = [{}];
  const data = [];
  const bands = [];
  const hidden = { stroke: "transparent", width: 0, points: { show: false } };
  for (const line of lines) {
    const colour = line.chosen ? ink(line.look.colour) : property("--line");
    line.index = series.length;
    series.push({
      label: line.name,
      stroke: colour,
      width: joined ? (line.chosen ? 2 : 1) : 0,
      dash: line.chosen && line.look.dash.length ? line.look.dash : undefined,
      points: { show: false },
      spanGaps: false,
    });
    data.push(line.value);
    if (joined && line.chosen && line.low) {
      series.push({ ...hidden, label: `${line.name} low` }, { ...hidden, label: `${line.name} high` });
      data.push(line.low, line.high);
      bands.push({ series: [line.index + 2, line.index + 1], fill: faint(colour, 13) });
    }
  }
  return { series, data, bands };
}

/* Markers of all points; whiskers where no line joins them. */
function drawMarkers(plot, chart) {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  const names = [];
  for (const line of chart.lines) {
    const colour = line.chosen ? ink(line.look.colour) : property("--line");
    const marker = markerOf(line.look) || (chart.joined ? null : MARKERS.o);
    if (!marker || (chart.joined && (!line.chosen || POINTS_ONLY.has(line.look.marker)))) continue;
    const path = new Path2D(marker);
    chart.x.forEach((x, index) => {
      const value = line.value[index];
      if (typeof value !== "number") return;
      const [left, top] = [plot.valToPos(x, "x", true), plot.valToPos(value, "y", true)];
      ctx.save();
      ctx.setLineDash([]);
      ctx.fillStyle = ctx.strokeStyle = colour;
      if (!chart.joined && typeof line.low?.[index] === "number") {
        ctx.lineWidth = 1.5 * ratio;
        ctx.beginPath();
        ctx.moveTo(left, plot.valToPos(line.low[index], "y", true));
        ctx.lineTo(left, plot.valToPos(line.high[index], "y", true));
        ctx.stroke();
      }
      ctx.translate(left, top);
      ctx.scale(ratio, ratio);
      ctx.fill(path);
      ctx.lineWidth = POINTS_ONLY.has(line.look.marker) ? 1.6 : 0.5;
      ctx.stroke(path);
      ctx.restore();
      if (chart.named && line.chosen) names.push([line.name, left / ratio, top / ratio]);
    });
  }
  drawNames(plot, names, ratio);
}

const NAME_SHIFTS = [-6, 14, -18, 26, -30, 38];

/* Names beside their points, up or down where another name has the place; one without any place is left to the readout. */
function drawNames({ ctx, bbox }, names, ratio) {
  ctx.save();
  ctx.scale(ratio, ratio);
  ctx.fillStyle = property("--ink");
  ctx.font = "11px system-ui, sans-serif";
  ctx.textAlign = "left";
  const taken = [];
  for (const [name, left, top] of names) {
    const width = ctx.measureText(name).width;
    const x = left + 8 + width > (bbox.left + bbox.width) / ratio ? left - 8 - width : left + 8;
    const free = (y) => taken.every(([a, b, end]) => Math.abs(b - y) >= 12 || x > end || x + width < a);
    const shift = NAME_SHIFTS.find((step) => free(top + step));
    if (shift === undefined) continue;
    taken.push([x, top + shift, x + width]);
    ctx.fillText(name, x, top + shift);
  }
  ctx.restore();
}

function readoutTable(chart, index) {
  const chosen = chart.lines.filter((line) => line.chosen && typeof line.value[index] === "number");
  const order = chart.better === -1 ? 1 : -1;
  chosen.sort((a, b) => order * (a.value[index] - b.value[index]));
  const rows = chosen.slice(0, MOST_READ).map((line) =>
    el("tr", {}, el("td", {}, swatch(line.look)), el("th", { scope: "row" }, line.name), el("td", {}, figureText(line.value[index], line.low?.[index], line.high?.[index]))),
  );
  return el("table", {}, el("caption", {}, `${chart.axis}: ${chart.names?.[index] ?? (Number.isInteger(chart.x[index]) ? chart.x[index] : number(chart.x[index]))}`), el("tbody", {}, rows));
}

function axisLook() {
  return { stroke: property("--ink"), grid: { stroke: faint(property("--line"), 60), width: 1 }, ticks: { stroke: property("--line") }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
}

/* chart: axis, names of its places, title, x, lines [{name, look, chosen, value, low, high}], joined, named, logarithmic, better. */
function drawChart(host, chart) {
  host.chart?.destroy();
  host.chart = null;
  if (!chart.x.length || !chart.lines.some((line) => line.value.some((value) => typeof value === "number"))) {
    host.replaceChildren(el("p", { class: "note" }, "There is nothing to draw."));
    return;
  }
  const { series, data, bands } = seriesOf(chart.lines, chart.joined);
  const area = el("div", { class: "plot", tabindex: 0, role: "img", "aria-label": `${chart.title} against ${chart.axis}. Arrow keys move along the horizontal axis; the values are listed beside it.` });
  const readout = el("div", { class: "readout", "aria-live": "polite" });
  host.replaceChildren(el("div", { class: "chart" }, area, readout));
  const read = (index) => readout.replaceChildren(readoutTable(chart, index));
  const few = new Set(chart.x).size;
  const plot = new uPlot(
    {
      width: Math.max(240, area.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, focus: { prox: 24 }, points: { show: chart.joined } },
      focus: { alpha: 0.3 },
      scales: { x: { time: false, distr: chart.logarithmic ? 3 : 1, range: few === 1 || !chart.joined || chart.logarithmic ? padded(chart) : undefined }, y: { dir: chart.turned ? -1 : 1, ...(chart.joined ? { auto: true, distr: chart.tall ? 3 : 1 } : { range: heights(chart) }) } },
      axes: [{ ...axisLook(), label: chart.axis, size: 36, labelSize: 22, ...(chart.names ? { splits: () => chart.x, values: () => chart.names } : {}) }, { ...axisLook(), label: chart.title, size: 58 }],
      series,
      bands,
      hooks: { draw: [(drawn) => drawMarkers(drawn, chart)], setCursor: [(drawn) => drawn.cursor.idx !== null && drawn.cursor.idx !== undefined && read(drawn.cursor.idx)] },
    },
    [chart.x, ...data],
    area,
  );
  host.chart = plot;
  let index = Math.floor(chart.x.length / 2);
  read(index);
  area.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    index = Math.min(chart.x.length - 1, Math.max(0, index + step));
    plot.setCursor({ left: plot.valToPos(chart.x[index], "x"), top: 10 });
    read(index);
  });
  new ResizeObserver(() => {
    const width = Math.max(240, area.clientWidth);
    if (host.chart === plot && width !== plot.width) plot.setSize({ width, height: HEIGHT });
  }).observe(area);
}

/* Ends of the vertical axis where whiskers are drawn. */
function heights(chart) {
  const ends = chart.lines.flatMap((line) => [...line.value, ...(line.low || []), ...(line.high || [])]).filter((value) => typeof value === "number");
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least - room, most + room];
}

/* Ends of the horizontal axis with room for markers and names. */
function padded(chart) {
  const [first, last] = [chart.x[0], chart.x.at(-1)];
  if (chart.logarithmic) return chart.named ? [first / 2, last * 3] : [first / 1.2, last * 1.2];
  const room = (last - first || Math.abs(first) || 1) * 0.08;
  return [first - room, last + 2 * room];
}

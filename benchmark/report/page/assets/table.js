"use strict";
/* The leaderboard: sorted and filtered here, with intervals drawn on one scale per column. */

function scaleOf(metric) {
  const ends = [...metric.value, ...metric.low, ...metric.high].filter((value) => typeof value === "number");
  return ends.length ? [Math.min(...ends), Math.max(...ends)] : null;
}

function bar(metric, place, scale) {
  const [low, high] = [metric.low[place], metric.high[place]];
  const share = (value) => (scale[1] > scale[0] ? (100 * (value - scale[0])) / (scale[1] - scale[0]) : 50);
  const point = el("b");
  point.style.left = `${share(metric.value[place])}%`;
  const drawn = el("span", { class: "bar", "aria-hidden": "true" }, point);
  if (typeof low === "number" && typeof high === "number") {
    const whisker = el("i");
    whisker.style.left = `${share(low)}%`;
    whisker.style.width = `${share(high) - share(low)}%`;
    drawn.prepend(whisker);
  }
  return drawn;
}

const RANKS = { 1: ["first", "best"], 2: ["second", "second best"] };

function figureCell(metric, place, scale, footnote) {
  const [value, rank] = [metric.value[place], metric.rank?.[place]];
  const note = at(metric.note, place);
  const mark = note ? tip(el("sup", { tabindex: 0 }, `[${footnote(note)}]`), note) : null;
  if (value === null) return el("td", {}, "– ", mark);
  const [name, words] = RANKS[rank] || [null, null];
  const count = at(metric.n, place);
  return el(
    "td",
    { class: [name, metric.doubt && "doubted"].filter(Boolean).join(" ") || null, title: count ? `n = ${count}` : null },
    el("span", { class: "figure" }, number(value)),
    words && unseen(` (${words})`),
    el("span", { class: "interval" }, interval(metric.low[place], metric.high[place])),
    mark,
    typeof value === "number" && scale ? bar(metric, place, scale) : null,
  );
}

/* Places of methods as the view sorts them; what has no value stands last. */
function sorted(places, view) {
  if (!view.column) return view.down ? [...places].reverse() : places;
  const value = (place) => view.column.value[place];
  const rated = places.filter((place) => typeof value(place) === "number");
  rated.sort((a, b) => (view.down ? value(b) - value(a) : value(a) - value(b)) || a - b);
  return [...rated, ...places.filter((place) => typeof value(place) !== "number")];
}

/* Columns of cost, in the form of metrics. */
function costColumns(board, costs) {
  const nothing = board.methods.map(() => null);
  return Object.entries(costs).map(([name, sentence]) => ({
    test: "cost", name, title: name, short: name, sentence, kind: "cost", better: 0, headline: false, doubt: "",
    value: board.methods.map((method) => method.cost[name]), low: nothing, high: nothing, n: null, rank: nothing, note: null,
  }));
}

function headRow(columns, view, sort) {
  const heading = (column) => {
    const active = view.column === column;
    const scale = scaleOf(column);
    const order = active ? (view.down ? " ▼" : " ▲") : "";
    return el(
      "th",
      { scope: "col", class: column.doubt ? "doubted" : null, "aria-sort": active ? (view.down ? "descending" : "ascending") : null },
      el(
        "div",
        { class: "heading" },
        el("button", { type: "button", class: "sort", "data-metric": `${column.test}.${column.name}`, onclick: () => sort(column) }, breakable(`${column.short} ${ARROWS[column.better]}${order}`)),
        tip(el("button", { type: "button", class: "about", "aria-label": `What ${column.title} means` }, "?"), definition(column)),
      ),
      el("span", { class: "code" }, breakable(`${column.test}.${column.name}`)),
      column.doubt && el("span", { class: "doubt" }, column.doubt),
      scale && el("span", { class: "range", "aria-hidden": "true" }, el("span", {}, number(scale[0])), el("span", {}, number(scale[1]))),
    );
  };
  const byRank = el("button", { type: "button", class: "sort", onclick: () => sort(null) }, `method${view.column ? "" : view.down ? " ▼" : " ▲"}`);
  return el("tr", {}, el("th", { scope: "col", class: "corner", "aria-sort": view.column ? null : view.down ? "descending" : "ascending" }, el("div", { class: "heading" }, byRank)), columns.map(heading));
}

function kindRow(columns) {
  const runs = [];
  for (const column of columns) {
    if (runs.at(-1)?.[0] === column.kind) runs.at(-1)[1] += 1;
    else runs.push([column.kind, 1]);
  }
  return el("tr", {}, el("td", { class: "corner" }), runs.map(([kind, span]) => el("th", { scope: "colgroup", colspan: span, class: "kind" }, el("span", {}, kind))));
}

function boardTable(board, view, sort) {
  const columns = view.columns.filter((column) => view.shown.has(column));
  const scales = columns.map(scaleOf);
  const notes = [];
  const footnote = (text) => (notes.includes(text) ? notes.indexOf(text) + 1 : notes.push(text));
  const row = (place) =>
    el(
      "tr",
      { "data-method": board.methods[place].name },
      el("th", { scope: "row" }, titledCode(board.methods[place]), board.methods[place].constant && el("span", { class: "code" }, board.methods[place].constant)),
      columns.map((column, index) => figureCell(column, place, scales[index], footnote)),
    );
  const matching = board.methods.map((method, place) => place).filter((place) => `${board.methods[place].name} ${board.methods[place].title}`.toLowerCase().includes(view.text));
  const body = (name, places) =>
    places.length
      ? el("tbody", { class: name }, el("tr", { class: "block" }, el("th", { scope: "rowgroup", class: "corner" }, name), el("th", { colspan: Math.max(1, columns.length), "aria-hidden": "true" }, name === "controls" ? "test the tests, never ranked" : "")), sorted(places, view).map(row))
      : null;
  const real = matching.filter((place) => !board.methods[place].control);
  const controls = view.controls ? matching.filter((place) => board.methods[place].control) : [];
  const table = el("table", { class: "board" }, el("caption", { class: "unseen" }, board.title), el("thead", {}, kindRow(columns), headRow(columns, view, sort)), body("methods", real), body("controls", controls));
  return { table, notes, count: real.length + controls.length };
}

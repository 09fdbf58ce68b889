"use strict";
/* What analyses found: sentences, a figure, and the table with its intervals. */

const OPEN_ROWS = 40;

function studyCell(column, place, scale) {
  const words = column.words[place];
  if (column.value[place] === null) return el("td", {}, words);
  return el("td", {},
    el("span", { class: "figure" }, number(column.value[place])), words && ` (${words})`,
    el("span", { class: "interval" }, interval(column.low[place], column.high[place])),
    scale && typeof column.value[place] === "number" && finite([column.low[place]]).length ? bar(column, place, scale) : null,
  );
}

/* Whether one scale shows all figures of a column: not where most of them would lie on one spot. */
function isComparable(column) {
  const sizes = finite(column.value).filter(Boolean).map(Math.abs).sort((a, b) => a - b);
  return sizes.length > 0 && sizes.at(-1) < 1000 * sizes[Math.floor(sizes.length / 2)];
}

function studyTable(study) {
  const scales = study.columns.map((column) => (isComparable(column) ? scaleOf(column) : null));
  const counted = study.n.some(Boolean);
  const names = (place) => study.rows[place].map((label, index) => el(index ? "td" : "th", { scope: index ? null : "row", title: study.codes[place][index] }, label));
  const heads = study.columns.map((column) => el("th", { scope: "col" }, column.title, column.code && el("span", { class: "code" }, breakable(column.code))));
  return el(
    "table",
    { class: "study" },
    el("caption", { class: "unseen" }, study.title),
    el("thead", {}, el("tr", {}, study.labels.map((label) => el("th", { scope: "col" }, label)), heads, counted && el("th", { scope: "col" }, "n"))),
    el("tbody", {}, study.rows.map((row, place) => el("tr", {}, names(place), study.columns.map((column, index) => studyCell(column, place, scales[index])), counted && el("td", {}, study.n[place])))),
  );
}

/* The table; below a figure, and where it is long, folded and made when it is opened. */
function studyValues(study) {
  if (!study.rows.length) {
    return [el("p", {}, `All values: table-${study.name}.csv`)];
  }
  const pane = scrolling(study.title);
  const fill = () => {
    pane.box.replaceChildren(studyTable(study));
    pane.update();
  };
  if (!study.figure && study.rows.length <= OPEN_ROWS) {
    fill();
    return pane.parts;
  }
  const folded = el("details", {}, el("summary", {}, `Values as a table (${study.rows.length} lines)`), pane.parts);
  folded.addEventListener("toggle", () => folded.open && !pane.box.firstChild && fill());
  return [folded];
}

function chartOf(figure, panel) {
  const lines = panel.lines.map((line) => ({ ...line, chosen: true }));
  const named = figure.kind === "scatter" && lines.every((line) => finite(line.value).length <= 1); // a name a point
  return { axis: panel.axis, named, title: panel.y || panel.title, x: panel.x, names: figure.logarithmic ? panel.x.map(String) : null, lines, joined: figure.kind === "curves", logarithmic: figure.logarithmic, tall: figure.tall, better: 1, turned: panel.turned };
}

/* A line chart or points, one panel at a time; the names of its lines stand in the list of values beside it. */
function chartPane({ figure }) {
  const area = el("div");
  const draw = (place) => drawChart(area, chartOf(figure, figure.panels[place]));
  const only = figure.kind === "scatter" && figure.panels.length === 1 && figure.panels[0].title;
  const choice = figure.panels.length > 1 ? el("div", { class: "tools" }, chooser("Figure", figure.panels.map((panel) => ["", panel.title]), 0, draw)) : only && el("p", { class: "note" }, only);
  return { parts: [choice, area], start: () => draw(0) };
}

function boxesPane(study) {
  const make = study.figure.kind === "heat" ? heatDrawing : barsDrawing;
  const parts = study.figure.panels.map((panel) => {
    const pane = scrolling(`Figure: ${study.title}`);
    pane.box.append(make(panel, study.figure.axis));
    return [study.figure.panels.length > 1 && study.figure.kind === "heat" && el("h4", {}, panel.title), ...pane.parts];
  });
  return { parts, start: () => {} };
}

function circuitPane(study) {
  const pane = scrolling(`Figure: ${study.title}`);
  for (const panel of study.figure.panels) pane.box.append(circuitDrawing(panel));
  return { parts: pane.parts, start: () => {} };
}

const PANES = { heat: boxesPane, bars: boxesPane, words: wordsPane, circuit: circuitPane };
const FIRST_SENTENCES = 6;

function findings(sentences) {
  const items = sentences.map((sentence) => el("li", {}, sentence));
  if (items.length <= FIRST_SENTENCES) return items.length ? [el("ul", {}, items)] : [];
  const rest = items.splice(FIRST_SENTENCES);
  return [el("ul", {}, items), el("details", {}, el("summary", {}, `${rest.length} more ${rest.length === 1 ? "sentence" : "sentences"}`), el("ul", {}, rest))];
}

function showAnalyses(host, studies) {
  if (!host || host.firstChild) return;
  const starts = [];
  const article = (study) => {
    const figure = study.figure && (PANES[study.figure.kind] || chartPane)(study);
    if (figure) starts.push(figure.start);
    return el("article", { "aria-label": study.title, class: "study-part" }, el("h3", {}, study.title, " ", el("span", { class: "code" }, study.name)), findings(study.sentences), figure && figure.parts, studyValues(study));
  };
  host.replaceChildren(
    el("p", { class: "note" }, "Values with 95 % intervals; n: examples. Analyses belong to the whole comparison, whichever task and model is chosen above."),
    ...studies.map(article),
  );
  for (const start of starts) start();
}

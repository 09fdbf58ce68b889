"use strict";
/* The words of an example, shaded by a method's scores. Sign and rationale have marks of their own beside colour. */

const WHITE_TEXT = 0.62;
const SIGNED = 0.02;

function score(value) {
  if (value === null) return "no score";
  const text = exponent(value.toPrecision(3));
  return value > 0 ? `+${text}` : text.replace("-", "−");
}

function wordSpan(word, value, marked, largest, values) {
  const span = el("span", {}, word);
  if (marked) span.classList.add("marked");
  if (value === null) {
    span.classList.add("lost");
  } else {
    const share = largest > 0 ? Math.min(1, Math.abs(value) / largest) : 0;
    const end = value > 0 ? "positive" : "negative";
    span.style.backgroundColor = `color-mix(in srgb, var(--${end}) ${Math.round(share * 100)}%, var(--ground))`;
    if (share > WHITE_TEXT) span.classList.add("full");
    if (value < 0 && share >= SIGNED) span.classList.add("less");
  }
  if (values && value !== null) span.append(el("small", { dir: "ltr" }, score(value)));
  const part = value !== null && largest > 0 ? `, ${Math.round((100 * value) / largest)} % of the largest` : "";
  return tip(span, `${word}: ${score(value)}${part}${marked ? "\nrationale" : ""}`);
}

function wordGroup(name, spans) {
  return el("div", { class: "words", dir: "auto", role: "group", "aria-label": `Words by ${name}` }, spans.flatMap((span) => [span, " "]));
}

function sizesOf(scores) {
  return scores.filter((value) => value !== null).map(Math.abs);
}

/* One method's card: its words, and the score that the full colour stands for. */
function wordCard(name, words, scores, rationale, values) {
  const sizes = sizesOf(scores);
  const largest = sizes.length ? Math.max(...sizes) : 0;
  const spans = words.map((word, place) => wordSpan(word, scores[place], rationale?.[place] === "1", largest, values));
  roving([spans]);
  const why = !sizes.length ? "no word has a score" : largest === 0 ? "all scores are 0" : `±${exponent(largest.toPrecision(3))}`;
  return el("div", { class: "card" }, el("h4", {}, el("span", {}, name), el("small", {}, why)), wordGroup(name, spans));
}

/* The same words once for each row of figures; arrow keys go along a row and from row to row. */
function wordRows(panel, largest, values) {
  const grid = panel.rows.map((row) => panel.words.map((word, place) => wordSpan(word, row.values[place], false, largest, values)));
  roving(grid);
  return panel.rows.map((row, line) => el("div", { class: "card" }, el("h4", {}, el("span", {}, row.name)), row.notes.map((note) => el("p", { class: "facts" }, note)), wordGroup(row.name, grid[line])));
}

/* A figure of shaded words: an example at a time. */
function wordsPane(study) {
  const { panels, left_out } = study.figure;
  const view = { place: 0, values: false };
  const area = el("div", { class: "cards stacked" });
  const said = el("p", { class: "note" });
  const draw = () => {
    const largest = Math.max(0, ...panels[view.place].rows.flatMap((row) => sizesOf(row.values)));
    said.textContent = `The full colour is ${score(largest)}, the largest value of this example. Point at a word, or reach it with Tab and the arrow keys, for its value.`;
    area.replaceChildren(...wordRows(panels[view.place], largest, view.values));
  };
  const tools = el("div", { class: "tools" },
    panels.length > 1 ? chooser("Example", panels.map((panel) => ["", panel.title]), 0, (place) => { view.place = place; draw(); }) : el("span", {}, panels[0].title),
    checkbox("values under the words", false, (on) => { view.values = on; draw(); }),
    left_out ? el("span", { class: "note" }, `${left_out} more in table-${study.name}.csv`) : null,
  );
  return { parts: [tools, said, area], start: draw };
}

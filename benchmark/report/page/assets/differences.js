"use strict";
/* Every method against every other on one metric: verdicts in words, and a matrix of symbols with values on demand. */

const SIGNS = { 1: "▲", "-1": "▼", 0: "·" };
const WITH_NUMBERS = 15;

/* Of a row and a column of the matrix: the pair as it stands, or turned round. */
function pairOf(contrast) {
  const found = new Map(contrast.first.map((first, place) => [`${first} ${contrast.second[place]}`, place]));
  return (row, column) => {
    const place = found.get(`${row} ${column}`) ?? found.get(`${column} ${row}`);
    if (place === undefined) return null;
    const sign = found.has(`${row} ${column}`) ? 1 : -1;
    const turned = (value) => (typeof value === "number" ? sign * value : value);
    const ends = [turned(contrast.low[place]), turned(contrast.high[place])];
    if (sign < 0) ends.reverse();
    const verdict = contrast.verdict[place];
    return {
      gain: turned(contrast.gain[place]), low: ends[0], high: ends[1], p: contrast.p[place], holm: contrast.holm[place],
      n: at(contrast.n, place), note: at(contrast.note, place), verdict: verdict === null ? null : sign * verdict,
    };
  };
}

function pairWords(pair, row, column) {
  if (pair.gain === null) return `${row} and ${column}: ${pair.note || "not compared"}`;
  const verdicts = { 1: `${row} is better`, "-1": `${column} is better`, 0: "not distinguishable" };
  const verdict = pair.verdict === null ? "a control: beside the corrected family" : verdicts[pair.verdict];
  const corrected = pair.holm === null ? "" : `, Holm-corrected ${number(pair.holm)}`;
  const note = pair.note ? `\n${pair.note}` : "";
  return `${row} over ${column}: ${figureText(pair.gain, pair.low, pair.high)}\np ${number(pair.p)}${corrected}, n = ${pair.n}\n${verdict}${note}`;
}

function matrixTable(board, contrast, say) {
  const names = (place) => board.methods[place].title;
  const across = [...contrast.methods, ...contrast.controls];
  const wide = across.length > WITH_NUMBERS;
  const pair = pairOf(contrast);
  const grid = [];
  const rows = contrast.methods.map((row) => {
    const cells = across.map((column) => {
      if (row === column) return el("td", { class: "same" }, unseen("the same"));
      const found = pair(row, column);
      if (!found) return el("td", {}, "–");
      const sign = found.verdict === null ? "" : SIGNS[found.verdict];
      const plus = found.gain > 0 ? "+" : "";
      const text = wide ? sign || "○" : `${sign} ${plus}${number(found.gain)}`;
      const cell = el("td", { "data-verdict": found.verdict }, text.trim());
      const words = pairWords(found, names(row), names(column));
      tip(cell, words);
      cell.addEventListener("focus", () => say(words));
      return cell;
    });
    grid.push(cells);
    return el("tr", {}, el("th", { scope: "row" }, titledCode(board.methods[row])), cells);
  });
  roving(grid);
  const heads = across.map((place) => tip(el("th", { scope: "col" }, breakable(names(place))), codeOf(board.methods[place])));
  return el(
    "table",
    { class: wide ? "matrix wide" : "matrix" },
    el("caption", { class: "unseen" }, "How much better the method of the row is than that of the column"),
    el("thead", {}, el("tr", {}, el("td", { class: "corner" }), heads)),
    el("tbody", {}, rows),
  );
}

function showDifferences(host, board) {
  if (!board.contrasts.length) {
    host.replaceChildren(el("p", { class: "note" }, "No metric that is ranked has two methods to compare."));
    return;
  }
  const metrics = board.contrasts.map((contrast) => board.scalars.find((one) => one.test === contrast.test && one.name === contrast.name));
  const pane = scrolling("Differences between methods");
  const sentences = el("ul");
  const spoken = el("p", { class: "unseen", "aria-live": "polite" });
  const meaning = el("p", { class: "note" });
  const draw = (place) => {
    const contrast = board.contrasts[place];
    meaning.textContent = metrics[place].sentence;
    sentences.replaceChildren(
      el("li", {}, contrast.calibration),
      contrast.random ? el("li", {}, `Against random: ${contrast.random}`) : "",
      ...contrast.sentences.map((sentence) => el("li", {}, sentence)),
    );
    pane.box.replaceChildren(contrast.methods.length ? matrixTable(board, contrast, (words) => { spoken.textContent = words; }) : el("p", {}, "No real method."));
    pane.update();
  };
  host.replaceChildren(
    el("div", { class: "tools" }, chooser("Metric", metrics.map((metric) => [metric.kind, titled(metric)]), 0, draw)),
    meaning,
    sentences,
    el("p", { class: "note" }, "Each cell: how much better the row is than the column, whatever the direction of the metric. ▲ row better, ▼ column better, · not distinguishable (two-sided sign flips, Holm-corrected over the pairs of real methods, 5 %); no sign or ○: a control, beside that family. Point at a cell, or reach it with Tab and the arrow keys, for interval and p-value."),
    ...pane.parts,
    spoken,
  );
  draw(0);
}

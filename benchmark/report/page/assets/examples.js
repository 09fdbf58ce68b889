"use strict";
/* One example at a time: what the model said of it, the words or the picture by method, its curve, its attribution graphs. */

const MOST_LISTED = 90;

function isWrong(shown, place) {
  return shown.label[place] !== null && shown.predicted[place] !== null && shown.label[place] !== shown.predicted[place];
}

function exampleLine(shown, place) {
  const text = shown.picture?.[place] ? shown.label[place] ?? "image" : shown.words[place].join(" ");
  return `${isWrong(shown, place) ? "✗ " : ""}${shown.uid[place]}: ${text.length > MOST_LISTED ? `${text.slice(0, MOST_LISTED)}…` : text}`;
}

function outcome(shown, place) {
  const known = (value) => (value === null ? "unknown" : value);
  const wrong = isWrong(shown, place);
  const probability = shown.probability[place];
  const facts = [
    ["example", shown.uid[place]],
    ["label", known(shown.label[place])],
    ["predicted", `${known(shown.predicted[place])}${probability === null ? "" : `, probability ${number(probability)}`}${wrong ? " ✗ wrong" : ""}`],
    ["explained class", shown.target[place]],
  ];
  return el("dl", { class: "outcome" }, facts.map(([name, value]) => [el("dt", {}, name), el("dd", { class: wrong && name === "predicted" ? "wrong" : null }, value)]));
}

function exampleCards(board, shown, place, choice, view) {
  const cards = [];
  shown.methods.forEach((method, index) => {
    const scores = shown.scores[index][place];
    if (!choice.chosen.has(method) || !scores) return;
    const name = board.methods[method].title;
    cards.push(shown.picture?.[place] ? pictureCard(name, shown, place, index, view) : wordCard(name, shown.words[place], scores, shown.rationale[place], view.values));
  });
  return cards.length ? cards : [el("p", { class: "note" }, `None of the methods that are chosen scores the ${shown.picture ? "patches" : "words"} of this example.`)];
}

function exampleCurve(board, shown, curve, place, choice) {
  const lines = curve.lines
    .filter(([method, values]) => choice.chosen.has(method) && values[place].some((value) => value !== null))
    .map(([method, values]) => ({ name: board.methods[method].title, look: board.methods[method].look, chosen: true, value: values[place] }));
  return { axis: (curve.axis || "x").replaceAll("_", " "), title: titled(curve), x: curve.x, lines, joined: true, better: curve.better };
}

function exampleGraphs(board, shown, place) {
  const found = shown.graphs.filter(([, example]) => example === place);
  if (!found.length) return [];
  const drawn = found.map(([method, , graph]) => [
    el("p", { class: "facts" }, el("b", {}, board.methods[method].title), ` · ${graph.note}`),
    el("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": `Attribution graph by ${board.methods[method].title}` }, graphDrawing(graph)),
    graphWords(graph),
  ]);
  const key = "An arrow leads from the token that is read to the one that reads it, at the height of the layer. Diamond: top node; filled circle: a token that passes on what it read; open circle: a leaf; square: what the classifier reads.";
  return [el("h3", {}, "Attribution graphs"), el("p", { class: "note" }, key), ...drawn.flat()];
}

/* Controls that choose an example: search in words, only mistakes, a list, and steps through it. */
function examplePicker(shown, go) {
  const select = el("select", { "aria-label": "Example", onchange: () => go(Number(select.value)) });
  const count = el("span", { class: "note", role: "status" });
  const search = el("input", { type: "search", placeholder: shown.picture ? "label or identifier" : "words or identifier", oninput: () => list() });
  const view = { wrong: false };
  const step = (sign) => () => {
    const next = select.options[select.selectedIndex + sign];
    if (!next) return;
    select.value = next.value;
    go(Number(next.value));
  };
  function list() {
    const text = search.value.trim().toLowerCase();
    const fits = (place) => (!view.wrong || isWrong(shown, place)) && `${shown.uid[place]} ${shown.picture?.[place] ? shown.label[place] : shown.words[place].join(" ")}`.toLowerCase().includes(text);
    const places = shown.uid.map((uid, place) => place).filter(fits);
    select.replaceChildren(...places.map((place) => el("option", { value: place }, exampleLine(shown, place))));
    const more = shown.left_out ? `; the page has no room for ${shown.left_out} more` : "";
    count.textContent = `${places.length} of ${shown.uid.length} examples${more}`;
    if (places.length) go(places[0]);
  }
  const parts = [
    el("label", {}, "Search", search),
    checkbox("wrong predictions only", false, (on) => { view.wrong = on; list(); }),
    select,
    el("button", { type: "button", onclick: step(-1) }, "← previous"),
    el("button", { type: "button", onclick: step(1) }, "next →"),
    count,
  ];
  return { tools: el("div", { class: "tools" }, parts), list };
}

function showExamples(host, board, shown, choice) {
  if (!shown.uid.length) {
    host.replaceChildren(el("p", { class: "note" }, "No run folder holds scores of words or patches to show."));
    return;
  }
  const view = { place: 0, values: false, removed: true, curve: 0 };
  const facts = el("div", { class: shown.picture ? "facing" : null });
  const cards = el("div", { class: "cards" });
  const area = el("div");
  const graphs = el("div");
  const draw = () => {
    cards.replaceChildren(...exampleCards(board, shown, view.place, choice, view));
    if (shown.curves.length) drawChart(area, exampleCurve(board, shown, shown.curves[view.curve], view.place, choice));
  };
  const go = (place) => {
    view.place = place;
    facts.replaceChildren(outcome(shown, place), ...plainPicture(shown, place));
    graphs.replaceChildren(...exampleGraphs(board, shown, place));
    draw();
  };
  const picker = examplePicker(shown, go);
  const curves = shown.curves.length
    ? [el("h3", {}, "Curve of this example"), el("div", { class: "tools" }, chooser("Curve", shown.curves.map((curve) => ["", titled(curve)]), 0, (place) => { view.curve = place; draw(); })), area]
    : [];
  const words = el("p", { class: "note" }, "Negative ", el("span", { class: "key", "aria-hidden": "true" }), " positive evidence for the explained class; a word with − before it has a negative score. Every method has its own scale: the full colour is its largest absolute score, given beside its name. ",
    el("span", { class: "words" }, el("span", { class: "marked" }, "Underlined")), " words are the rationale; grey italic words have no score. Point at a word, or reach it with Tab and the arrow keys, for its score.");
  host.replaceChildren(
    shown.picture ? el("p", { class: "note" }, PICTURE_NOTE) : words,
    picker.tools,
    facts,
    legend(board, choice),
    el("div", { class: "tools" }, shown.picture ? pictureTools(host, view, draw) : null, checkbox(shown.picture ? "scores of the patches" : "scores under the words", false, (on) => { view.values = on; draw(); })),
    cards,
    ...curves,
    graphs,
  );
  choice.listeners.add(draw);
  picker.list();
}

"use strict";
/* Figures against an axis: one metric at a time, with its values as a table as well. */

function curveChart(board, curve, choice, others) {
  const lines = [];
  board.methods.forEach((method, place) => {
    const line = curve.lines[place];
    const chosen = choice.chosen.has(place);
    if (line && (chosen || others)) lines.push({ name: method.title, look: method.look, chosen, ...line });
  });
  lines.sort((a, b) => a.chosen - b.chosen);
  return { axis: (curve.axis || "x").replaceAll("_", " "), title: titled(curve), x: curve.x, names: curve.names, lines, joined: curve.joined, better: curve.better };
}

function valuesTable(board, curve) {
  const rows = board.methods.map((method, place) => [method, curve.lines[place]]).filter(([, line]) => line);
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "method"), curve.x.map((x, index) => el("th", { scope: "col" }, curve.names?.[index] ?? number(x))))),
    el("tbody", {}, rows.map(([method, line]) => el("tr", {}, el("th", { scope: "row", title: codeOf(method) || null }, method.title), curve.x.map((x, index) => el("td", { title: interval(line.low[index], line.high[index]) }, number(line.value[index])))))),
  );
}

/* The curve that is shown first: accuracy under perturbation where there is one. */
function firstCurve(curves) {
  const accuracy = curves.findIndex((curve) => /^positive_accuracy/.test(curve.name));
  return accuracy < 0 ? 0 : accuracy;
}

function showCurves(host, board, choice) {
  if (!board.curves.length) {
    host.replaceChildren(el("p", { class: "note" }, "No test gave a curve."));
    return;
  }
  const view = { curve: board.curves[firstCurve(board.curves)], others: false };
  const area = el("div");
  const meaning = el("p", { class: "note" });
  const table = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values of the curve" });
  const values = el("details", {}, el("summary", {}, "Values as a table"), table);
  const fillTable = () => values.open && table.replaceChildren(valuesTable(board, view.curve));
  values.addEventListener("toggle", fillTable);
  const draw = () => {
    meaning.textContent = view.curve.sentence;
    drawChart(area, curveChart(board, view.curve, choice, view.others));
    fillTable();
  };
  host.replaceChildren(
    el("div", { class: "tools" },
      chooser("Curve", board.curves.map((curve) => [curve.kind, titled(curve)]), board.curves.indexOf(view.curve), (place) => { view.curve = board.curves[place]; draw(); }),
      checkbox("the other methods in grey", view.others, (on) => { view.others = on; draw(); }),
    ),
    meaning,
    legend(board, choice),
    area,
    el("p", { class: "note" }, "Bands and whiskers are 95 % intervals over examples; a value without one has none, since n is 1 or too few of the examples differ. Point at the chart, or focus it and use the arrow keys, for the values."),
    values,
  );
  choice.listeners.add(draw);
  draw();
}

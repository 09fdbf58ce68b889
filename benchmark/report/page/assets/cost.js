"use strict";
/* What a method takes against what it gives: a point per method. */

/* Why a method has no point; empty where it has one. */
function leftOut(cost, metric, place, logarithmic) {
  if (typeof cost !== "number") return "without this cost";
  if (typeof metric.value[place] !== "number") return at(metric.note, place)?.startsWith("n too small") ? "whose n is too small for a figure" : "without this figure";
  return logarithmic && cost <= 0 ? "of cost zero, which has no place on a logarithmic axis" : "";
}

function costChart(board, cost, metric, choice, logarithmic) {
  const of = (place) => board.methods[place].cost[cost];
  const reasons = board.methods.map((method, place) => leftOut(of(place), metric, place, logarithmic));
  const usable = reasons.map((reason, place) => place).filter((place) => !reasons[place]);
  const x = [...new Set(usable.map(of))].sort((a, b) => a - b);
  const lines = usable.map((place) => {
    const only = (value) => x.map((one) => (one === of(place) ? value : null));
    const method = board.methods[place];
    return { name: method.title, look: method.look, chosen: choice.chosen.has(place), value: only(metric.value[place]), low: only(metric.low[place]), high: only(metric.high[place]) };
  });
  lines.sort((a, b) => a.chosen - b.chosen);
  const left = [...new Set(reasons.filter(Boolean))].map((reason) => {
    const count = reasons.filter((other) => other === reason).length;
    return `${count} ${count === 1 ? "method" : "methods"} ${reason}`;
  });
  return { chart: { axis: cost, title: titled(metric), x, lines, joined: false, named: true, logarithmic, better: metric.better }, left };
}

function showCost(host, board, costs, choice) {
  const metrics = board.scalars.filter((metric) => metric.value.some((value) => typeof value === "number"));
  const kinds = Object.keys(costs);
  if (!metrics.length) {
    host.replaceChildren(el("p", { class: "note" }, "There are no figures that can be shown."));
    return;
  }
  const view = { cost: kinds[0], metric: metrics.find((metric) => metric.headline) || metrics[0], logarithmic: true };
  const area = el("div");
  const words = el("p", { class: "note" });
  const draw = () => {
    const { chart, left } = costChart(board, view.cost, view.metric, choice, view.logarithmic);
    drawChart(area, chart);
    const missing = left.length ? ` Left out: ${left.join("; ")}.` : "";
    words.textContent = `${costs[view.cost]} Lines are 95 % intervals; grey points are methods that are not chosen.${missing}`;
  };
  host.replaceChildren(
    el("div", { class: "tools" },
      chooser("Cost", kinds.map((kind) => ["", kind]), 0, (place) => { view.cost = kinds[place]; draw(); }),
      chooser("Metric", metrics.map((metric) => [metric.kind, titled(metric)]), metrics.indexOf(view.metric), (place) => { view.metric = metrics[place]; draw(); }),
      checkbox("logarithmic", view.logarithmic, (on) => { view.logarithmic = on; draw(); }),
    ),
    legend(board, choice),
    area,
    words,
  );
  choice.listeners.add(draw);
  draw();
}

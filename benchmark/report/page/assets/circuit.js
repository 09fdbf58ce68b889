"use strict";
/* A circuit: the input below, layers upwards, the logits above; edges by weight, what they are on hover. */

const GAP = { x: 74, y: 46, margin: 40 };
const DASHES = { q: "1 3", k: "6 3" };
const BENDS = { q: 14, k: -14 };

function circuitEdge(from, to, [, , reader, share, speaks, told]) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const size = Math.hypot(dx, dy) || 1;
  const bend = BENDS[reader] || 0;
  const middle = [(from[0] + to[0]) / 2 - (dy / size) * bend, (from[1] + to[1]) / 2 + (dx / size) * bend];
  const path = `M${from[0]} ${from[1]}Q${middle[0]} ${middle[1]} ${to[0]} ${to[1]}`;
  const line = svg("path", { d: path, fill: "none", stroke: speaks ? "#0072B2" : "#D55E00", "stroke-width": 0.6 + 3.4 * share, "stroke-opacity": 0.35 + 0.6 * share, "stroke-dasharray": DASHES[reader] || null });
  return svg("g", {}, line, tip(svg("path", { d: path, fill: "none", stroke: "transparent", "stroke-width": 10 }), told));
}

function circuitDrawing(panel) {
  const across = panel.nodes.map(([, x]) => x);
  const up = panel.nodes.map(([, , y]) => y);
  const [left, top] = [Math.min(...across), Math.max(...up)];
  const place = ([, x, y]) => [GAP.margin + (x - left) * GAP.x, GAP.margin / 2 + (top - y) * GAP.y];
  const size = [2 * GAP.margin + (Math.max(...across) - left) * GAP.x, GAP.margin + (top - Math.min(...up)) * GAP.y];
  const drawing = svg("svg", { class: "graph", width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}`, role: "img", "aria-label": panel.title });
  for (const edge of panel.edges) drawing.append(circuitEdge(place(panel.nodes[edge[0]]), place(panel.nodes[edge[1]]), edge));
  for (const node of panel.nodes) {
    const [x, y] = place(node);
    const reads = panel.edges.filter(([, goal]) => panel.nodes[goal] === node).map(([, , , , , told]) => told);
    const box = svg("rect", { x: x - 28, y: y - 10, width: 56, height: 20, rx: node[0].startsWith("m") ? 0 : 8, fill: "var(--ground)", stroke: "var(--ink)" });
    drawing.append(tip(svg("g", {}, box, svg("text", { x, y: y + 4, "text-anchor": "middle" }, node[0])), reads.slice(-6).reverse().join(" · ") || node[0]));
  }
  const said = "Solid lines lead to values or to no head, dashed ones to keys, dotted ones to queries; blue edges speak for the answer, orange ones against it.";
  return el("div", {}, drawing, el("p", { class: "note" }, said));
}

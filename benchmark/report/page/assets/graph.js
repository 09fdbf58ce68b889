"use strict";
/* An attribution graph: tokens along the sentence, layers as height, arrows the way that information flows. */

const STEP = { x: 34, y: 34, left: 60, top: 26 };
const ALL_TOKENS = 60;
const LETTERS = 14;

/* Places of the nodes: a token stands in the layer in which it is read, the terminal above all. */
function graphPlaces(graph) {
  const inside = graph.states.map((state, token) => [state, token]).filter(([state]) => state !== "not-appeared").map(([, token]) => token);
  const everything = graph.tokens.map((token, place) => place);
  const shown = graph.tokens.length <= ALL_TOKENS ? everything : [...new Set([...inside, ...(graph.terminal === null ? [] : [graph.terminal])])].sort((a, b) => a - b);
  const x = new Map(shown.map((token, place) => [token, STEP.left + place * STEP.x]));
  const y = (layer) => STEP.top + (graph.layers - layer) * STEP.y;
  const nodes = new Map();
  if (graph.top !== null) nodes.set(graph.top, [x.get(graph.top), y(graph.layers - 1), "top"]);
  for (const [, key, layer] of graph.edges) nodes.set(key, [x.get(key), y(layer), graph.states[key]]);
  const end = graph.terminal === null ? null : [x.get(graph.terminal), y(graph.layers), "terminal"];
  return { shown, x, y, nodes, end };
}

const FILLS = { top: "#D55E00", fixed: "#0072B2", appeared: "var(--ground)", terminal: "var(--ink)" };

function graphNode([x, y, state], label) {
  const shapes = { top: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z`, terminal: `M${x - 6} ${y - 6}h12v12h-12Z` };
  const drawn = shapes[state] ? svg("path", { d: shapes[state] }) : svg("circle", { cx: x, cy: y, r: 5.5 });
  drawn.setAttribute("class", "node");
  drawn.style.fill = FILLS[state] || "var(--ground)";
  return tip(drawn, label);
}

function graphEdge(from, to, share) {
  const bend = from[1] === to[1] ? -18 : 0;
  const middle = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2 + bend];
  return svg("path", { class: "edge", d: `M${from[0]} ${from[1]}Q${middle[0]} ${middle[1]} ${to[0]} ${to[1]}`, "stroke-width": 0.8 + 2.2 * Math.min(1, share), "marker-end": "url(#arrow)" });
}

function graphDrawing(graph) {
  const { shown, x, y, nodes, end } = graphPlaces(graph);
  const size = [STEP.left + shown.length * STEP.x, STEP.top + graph.layers * STEP.y + 100];
  const text = (token) => (graph.tokens[token].length > LETTERS ? `${graph.tokens[token].slice(0, LETTERS - 1)}…` : graph.tokens[token]);
  const drawing = svg("svg", { class: "graph", width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}`, role: "img", "aria-label": `Attribution graph: ${graph.note}` },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 13, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8Z", fill: "var(--soft)" }))));
  for (let layer = 0; layer < graph.layers; layer += 1) drawing.append(svg("text", { class: "aside", x: 4, y: y(layer) + 4 }, `layer ${layer}`));
  for (const token of shown) {
    const place = [x.get(token), STEP.top + graph.layers * STEP.y + 14];
    const inside = nodes.has(token) || token === graph.terminal;
    drawing.append(svg("text", { class: inside ? null : "aside", transform: `translate(${place[0] + 4} ${place[1]}) rotate(-60)`, "text-anchor": "end" }, text(token)));
  }
  for (const [query, key, , share] of graph.edges) drawing.append(graphEdge(nodes.get(key), nodes.get(query), share));
  if (end && graph.top !== null) drawing.append(graphEdge(nodes.get(graph.top), end, 1));
  for (const [token, node] of nodes) drawing.append(graphNode(node, `${graph.tokens[token]} (${node[2]})`));
  if (end) drawing.append(graphNode(end, `${graph.tokens[graph.terminal]}: what the classifier reads`));
  return drawing;
}

function graphWords(graph) {
  const flows = graph.edges.map(([query, key, layer, share]) => el("li", {}, `layer ${layer}: ${graph.tokens[query]} reads ${graph.tokens[key]} (${number(share)} of the layer's largest)`));
  return el("details", {}, el("summary", {}, "The graph in words"), el("ul", {}, flows));
}

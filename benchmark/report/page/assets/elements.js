"use strict";
/* Elements are made of text nodes and attributes alone: no text of a run folder is ever read as markup. */

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return node;
}

/* el("td", {class: "x", onclick: f}, "text", child) */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/* A name that may be broken after its underscores and dots. */
function breakable(name) {
  return name.split(/(?<=[_.])/).flatMap((part, place) => (place ? [el("wbr"), part] : [part]));
}

/* What settings and CSV files call a method, where that is not its title. */
function codeOf(method) {
  return method.title === method.name ? "" : method.name;
}

/* A title with the code name below it. */
function titledCode(method) {
  const code = codeOf(method);
  return [breakable(method.title), code && el("span", { class: "code" }, breakable(code))];
}

function unseen(text) {
  return el("span", { class: "unseen" }, text);
}

/* The value of a column at a place; a column of equal values is written as one of them. */
function at(column, place) {
  return Array.isArray(column) ? column[place] : column;
}

function exponent(text) {
  return text.replace(/e([+-])(\d)$/, "e$10$2");
}

/* A number as every table of the report writes it. */
function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  const size = Math.abs(value);
  if (size > 0 && size < 0.0005) return exponent(value.toExponential(1));
  if (size >= 10000) return exponent(value.toPrecision(3));
  return value.toFixed(size < 10 ? 3 : size < 100 ? 2 : 1);
}

function interval(low, high) {
  return typeof low === "number" && typeof high === "number" ? `[${number(low)}, ${number(high)}]` : "";
}

function figureText(value, low, high) {
  return `${number(value)} ${interval(low, high)}`.trim();
}

const ARROWS = { 1: "↑", "-1": "↓", 0: "" };

function titled(metric) {
  return `${metric.title} ${ARROWS[metric.better]}`.trim();
}

function definition(metric) {
  return [metric.title, metric.sentence, `${metric.test}.${metric.name}`].filter(Boolean).join("\n");
}

/* A labelled list of choices in groups; `entries` are [group, text], the value is the place. */
function chooser(label, entries, chosen, change) {
  const select = el("select", { onchange: () => change(Number(select.value)) });
  const groups = new Map();
  entries.forEach(([group, text], place) => {
    if (!groups.has(group)) groups.set(group, el("optgroup", { label: group }));
    groups.get(group).append(el("option", { value: place, selected: place === chosen }, text));
  });
  const bare = groups.size === 1 && groups.has("");
  select.append(...(bare ? [...groups.get("").children] : groups.values()));
  return el("label", {}, label, select);
}

function checkbox(label, checked, change) {
  const box = el("input", { type: "checkbox", checked, onchange: () => change(box.checked) });
  return el("label", {}, box, label);
}

/* Arrow keys move the focus among the elements of a grid, of which one at a time can be reached by Tab. */
function roving(rows) {
  const first = rows.find((row) => row.length);
  if (first) first[0].tabIndex = 0;
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  rows.forEach((row, line) =>
    row.forEach((cell, column) => {
      if (cell !== first[0]) cell.tabIndex = -1;
      cell.addEventListener("keydown", (event) => {
        const [down, right] = steps[event.key] || [0, 0];
        const next = rows.length > 1 ? rows[line + down]?.[column + right] : row[column + (right || down)];
        if (!next || next === cell) return;
        event.preventDefault();
        cell.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      });
    }),
  );
}

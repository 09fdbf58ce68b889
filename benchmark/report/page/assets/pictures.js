"use strict";
/* The image of an example under a method's heatmap: bilinear between the centres of patches, as the stored maps of pixels. */

const SHARES_REMOVED = [0.1, 0.5, 0.9];
const CANVAS = 336; // pixels of the longer side of a drawn heatmap

/* Scores on a grid, and how many pixels of the image a cell of it covers. */
function gridOf(picture, scores, map) {
  if (!map) return { rows: picture.grid[0], columns: picture.grid[1], side: picture.patch, scores };
  const bytes = Uint8Array.from(atob(map.values), (letter) => letter.charCodeAt(0));
  const values = Array.from(new Int8Array(bytes.buffer), (step) => (step * map.largest) / 127);
  return { rows: map.grid[0], columns: map.grid[1], side: [map.step, map.step], scores: values };
}

/* Where a pixel lies between two cells: the two, and the share of the second. */
function between(pixel, side, count) {
  const place = Math.min(count - 1, Math.max(0, pixel / side - 0.5));
  const first = Math.min(count - 1, Math.floor(place));
  return [first, Math.min(count - 1, first + 1), place - first];
}

function colourOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
}

/* Sizes of scores between which colour grows, as `benchmark.explain` chooses them: a map of one sign from its 5th percentile
   on (what differs little would be one colour from 0 on), another from 0 on; to the 99th, or to the largest where that is 0. */
function shadesOf(scores) {
  const values = finite(scores);
  const sizes = values.map(Math.abs).sort((a, b) => a - b);
  const percentile = (share) => {
    const place = share * (sizes.length - 1);
    const below = Math.floor(place);
    return sizes[below] + (place - below) * ((sizes[below + 1] ?? sizes[below]) - sizes[below]);
  };
  const full = sizes.length ? percentile(0.99) || sizes.at(-1) : 0;
  const signs = new Set(values.map(Math.sign).filter(Boolean));
  const low = sizes.length && signs.size < 2 ? percentile(0.05) : 0;
  return { clear: low < full ? low : 0, full, signs };
}

/* Colour by sign, the less transparent the nearer to the end of the shades. */
function heatCanvas(picture, grid, shades) {
  const [high, wide] = picture.size;
  const scale = CANVAS / Math.max(high, wide);
  const canvas = el("canvas", { width: Math.round(wide * scale), height: Math.round(high * scale), "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const drawn = context.createImageData(canvas.width, canvas.height);
  const ends = { 1: colourOf("--heat-positive"), "-1": colourOf("--heat-negative"), 0: [0, 0, 0] };
  const across = Array.from({ length: canvas.width }, (_, x) => between(((x + 0.5) * wide) / canvas.width, grid.side[1], grid.columns));
  for (let y = 0; y < canvas.height; y += 1) {
    const [top, bottom, down] = between(((y + 0.5) * high) / canvas.height, grid.side[0], grid.rows);
    for (let x = 0; x < canvas.width; x += 1) {
      const [left, right, along] = across[x];
      const cell = (row, column) => grid.scores[row * grid.columns + column] ?? 0;
      const upper = cell(top, left) * (1 - along) + cell(top, right) * along;
      const lower = cell(bottom, left) * (1 - along) + cell(bottom, right) * along;
      const value = upper * (1 - down) + lower * down;
      const share = shades.full > 0 ? Math.min(1, Math.max(0, (Math.abs(value) - shades.clear) / (shades.full - shades.clear))) : 0;
      drawn.data.set([...ends[Math.sign(value)], Math.round(255 * share)], 4 * (y * canvas.width + x));
    }
  }
  context.putImageData(drawn, 0, 0);
  return canvas;
}

/* The border of the marked pixels as a path: an edge where a marked pixel meets an unmarked one or the image's end. */
function outlinePath([high, wide], runs) {
  const marked = new Uint8Array(high * wide);
  let start = 0;
  runs.forEach((length, place) => {
    if (place % 2) marked.fill(1, start, start + length);
    start += length;
  });
  const at = (y, x) => y >= 0 && x >= 0 && y < high && x < wide && marked[y * wide + x] === 1;
  const parts = [];
  for (let y = 0; y <= high; y += 1) {
    for (let x = 0; x <= wide; x += 1) {
      if (at(y, x) !== at(y - 1, x)) parts.push(`M${x} ${y}h1`);
      if (at(y, x) !== at(y, x - 1)) parts.push(`M${x} ${y}v1`);
    }
  }
  return parts.join("");
}

function layer(picture, path, attributes) {
  return svg("svg", { viewBox: `0 0 ${picture.size[1]} ${picture.size[0]}`, "aria-hidden": "true" }, svg("path", { d: path, ...attributes }));
}

function outline(picture) {
  if (!picture.mask) return [];
  const path = outlinePath(picture.size, picture.mask);
  return ["outline-ground", "outline-line"].map((name) => layer(picture, path, { class: name }));
}

/* A picture with layers on top; `text` says what it shows to those who do not see it. */
function framed(picture, text, ...layers) {
  const image = el("img", { src: picture.data, alt: "", width: picture.size[1], height: picture.size[0] });
  return el("div", { class: "picture", role: "img", "aria-label": text }, image, layers);
}

function described(picture, scores, name) {
  const sizes = scores.map((value, place) => [value, place]).filter(([value]) => value !== null);
  if (!sizes.length) return `${name}: no patch has a score`;
  const [value, place] = sizes.reduce((best, one) => (one[0] > best[0] ? one : best));
  return `${name}: highest score ${score(value)} at row ${Math.floor(place / picture.grid[1]) + 1} of ${picture.grid[0]}, column ${(place % picture.grid[1]) + 1} of ${picture.grid[1]}`;
}

/* The colour bar with its ends; one side where all scores have one sign. */
function colourBar({ clear, full, signs }) {
  if (!(full > 0)) return el("p", { class: "note" }, "all scores are 0");
  const kind = signs.size > 1 ? "bar both" : signs.has(-1) ? "bar negative" : "bar";
  const bar = el("span", { class: kind, "aria-hidden": "true" });
  const ticks = signs.size > 1 ? [-full, 0, full] : signs.has(-1) ? [-full, -clear] : [clear, full];
  return el("div", { class: "colours" }, bar, el("span", { class: "ends" }, ticks.map((value) => el("span", {}, value === 0 ? "0" : score(value)))));
}

function heatFigure(picture, scores, map, name, caption) {
  const grid = gridOf(picture, scores, map);
  const shades = shadesOf(grid.scores);
  return el("figure", {},
    framed(picture, described(picture, scores, `Heatmap by ${name}, ${caption}`), heatCanvas(picture, grid, shades), outline(picture)),
    el("figcaption", {}, caption), colourBar(shades));
}

/* The image with its most relevant patches painted black, as many as a share of them. */
function removedFigure(picture, scores, share, name) {
  const order = scores.map((value, place) => [value ?? -Infinity, place]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  const count = Math.floor(share * scores.length + 1e-9);
  const [high, wide] = picture.patch;
  const path = order.slice(0, count).map(([, place]) => `M${(place % picture.grid[1]) * wide} ${Math.floor(place / picture.grid[1]) * high}h${wide}v${high}h${-wide}z`).join("");
  const percent = `${Math.round(100 * share)} %`;
  return el("figure", {}, framed(picture, `The image without the ${count} patches that ${name} scores highest`, layer(picture, path, { class: "gone" })), el("figcaption", {}, `without ${percent}`));
}

/* Scores patch by patch, to be read with Tab and the arrow keys. */
function patchTable(picture, scores, rationale, name) {
  const largest = Math.max(0, ...sizesOf(scores));
  const wide = picture.grid[1];
  const cells = scores.map((value, place) => {
    const span = wordSpan("", value, rationale?.[place] === "1", largest, false);
    span.textContent = value === null ? "–" : largest > 0 ? String(Math.round(Math.abs(100 * value) / largest)) : "0";
    if (Math.abs(value) < SIGNED * largest) span.textContent = "0";
    return tip(span, `row ${Math.floor(place / wide) + 1}, column ${(place % wide) + 1}: ${score(value)}${rationale?.[place] === "1" ? "\nrationale" : ""}`);
  });
  roving(Array.from({ length: picture.grid[0] }, (_, row) => cells.slice(row * wide, (row + 1) * wide)));
  const table = el("div", { class: "words patches", role: "group", "aria-label": `Patches by ${name}, per cent of the largest` }, cells);
  table.style.gridTemplateColumns = `repeat(${wide}, minmax(1.9rem, 1fr))`;
  return table;
}

/* One method's card: its heatmap, that for the second class beside it, the perturbed images, the patches. */
function pictureCard(name, shown, place, index, view) {
  const [picture, scores] = [shown.picture[place], shown.scores[index][place]];
  const { map, second } = shown.maps[index][place] || {};
  const figures = [heatFigure(picture, scores, map, name, `for ${shown.target[place]}`)];
  if (second) figures.push(heatFigure(picture, second.scores, null, name, `for ${second.target} (probability ${number(second.probability)})`));
  return el("div", { class: "card" },
    el("h4", {}, el("span", {}, name)),
    el("div", { class: "pictures" }, figures),
    view.removed && el("div", { class: "pictures small" }, SHARES_REMOVED.map((share) => removedFigure(picture, scores, share, name))),
    view.values && patchTable(picture, scores, shown.rationale[place], name));
}

/* The image as the model reads it, with the outline of the mask. */
function plainPicture(shown, place) {
  const picture = shown.picture?.[place];
  if (!picture) return [];
  const marked = picture.mask ? ", the mask outlined" : "";
  return [el("figure", {}, framed(picture, `The image ${shown.uid[place]}${marked}`, outline(picture)), el("figcaption", {}, `image${marked}`))];
}

/* Controls of pictures: how much of the image the heatmap covers, and the perturbed images. */
function pictureTools(host, view, draw) {
  const opacity = el("input", { type: "range", min: 0, max: 100, step: 5, value: 70, oninput: () => cover() });
  const cover = () => {
    host.style.setProperty("--cover", String(opacity.value / 100));
    opacity.setAttribute("aria-valuetext", `${opacity.value} %`);
  };
  cover();
  return [el("label", {}, "opacity of the heatmap", opacity), checkbox("images without patches", true, (on) => { view.removed = on; draw(); })];
}

const PICTURE_NOTE = "Negative (blue) and positive (red) evidence for the explained class; scores between the centres of patches are interpolated. Every map has its own scale, given below it: full colour begins at the 99th percentile of the sizes of its scores (at the largest where that is 0), and no colour ends at 0, or at their 5th percentile where all scores have one sign. Images without patches: the 10, 50 and 90 % of patches that a method scores highest are black; equal scores go row by row here, in a drawn order in the tests.";

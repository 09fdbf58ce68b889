"use strict";
/* How a method looks, the same in every drawing: colour, dashes and marker. */

const MARKERS = {
  o: "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
  s: "M-3.5 -3.5H3.5V3.5H-3.5Z",
  "^": "M0 -4.5L4.5 3.5H-4.5Z",
  v: "M0 4.5L4.5 -3.5H-4.5Z",
  "<": "M-4.5 0L3.5 -4.5V4.5Z",
  ">": "M4.5 0L-3.5 -4.5V4.5Z",
  D: "M0 -4.8L4.8 0L0 4.8L-4.8 0Z",
  d: "M0 -5L3 0L0 5L-3 0Z",
  P: "M-1.5 -4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z",
  X: "M-4.5 -2.5L-2.5 -4.5L0 -2L2.5 -4.5L4.5 -2.5L2 0L4.5 2.5L2.5 4.5L0 2L-2.5 4.5L-4.5 2.5L-2 0Z",
  p: "M0 -4.6L4.4 -1.4L2.7 3.7H-2.7L-4.4 -1.4Z",
  h: "M0 -4.6L4 -2.3V2.3L0 4.6L-4 2.3V-2.3Z",
  "*": "M0 -5L1.2 -1.6H4.8L1.9 .6L3 4L0 1.9L-3 4L-1.9 .6L-4.8 -1.6H-1.2Z",
};
MARKERS.x = "M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5";
MARKERS[1] = "M0 0V5M0 0L4.3 -2.5M0 0L-4.3 -2.5";
MARKERS[2] = "M0 0V-5M0 0L4.3 2.5M0 0L-4.3 2.5";
MARKERS[3] = "M0 0H-5M0 0L2.5 4.3M0 0L2.5 -4.3";
MARKERS[4] = "M0 0H5M0 0L-2.5 4.3M0 0L-2.5 -4.3";
const POINTS_ONLY = new Set(["x", "1", "2", "3", "4"]); // of controls, whose lines have no markers
const darkness = window.matchMedia("(prefers-color-scheme: dark)");

/* A colour; on a dark ground, halfway to white where it is too dark to be seen there. */
function ink(colour) {
  if (!darkness.matches) return colour;
  const parts = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
  const light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  const share = light < 90 ? 0.55 : light < 140 ? 0.25 : 0;
  return `rgb(${parts.map((part) => Math.round(part + (255 - part) * share)).join(",")})`;
}

function markerOf(look) {
  return MARKERS[look.marker] || (look.marker ? MARKERS.o : null);
}

function swatch(look) {
  const colour = ink(look.colour);
  const path = markerOf(look);
  return svg(
    "svg",
    { width: 30, height: 12, viewBox: "-15 -6 30 12", "aria-hidden": "true" },
    svg("line", { x1: -15, x2: 15, y1: 0, y2: 0, stroke: colour, "stroke-width": 2, "stroke-dasharray": look.dash.join(" ") || null }),
    path && !POINTS_ONLY.has(look.marker) && svg("path", { d: path, fill: colour }),
  );
}

/* A custom property of the page, as the canvas needs it. */
function property(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

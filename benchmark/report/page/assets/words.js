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
  if (values && value !== null) span.append(el("small", {}, score(value)));
  const part = value !== null && largest > 0 ? `, ${Math.round((100 * value) / largest)} % of the largest` : "";
  return tip(span, `${word}: ${score(value)}${part}${marked ? "\nrationale" : ""}`);
}

/* One method's card: its words, and the score that the full colour stands for. */
function wordCard(name, words, scores, rationale, values) {
  const sizes = scores.filter((value) => value !== null).map(Math.abs);
  const largest = sizes.length ? Math.max(...sizes) : 0;
  const spans = words.map((word, place) => wordSpan(word, scores[place], rationale?.[place] === "1", largest, values));
  roving([spans]);
  const why = !sizes.length ? "no word has a score" : largest === 0 ? "all scores are 0" : `±${exponent(largest.toPrecision(3))}`;
  return el(
    "div",
    { class: "card" },
    el("h4", {}, el("span", {}, name), el("small", {}, why)),
    el("div", { class: "words", role: "group", "aria-label": `Words by ${name}` }, spans.flatMap((span) => [span, " "])),
  );
}

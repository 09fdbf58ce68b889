"use strict";
/* The methods that curves, examples and costs show in colour: chosen once, for all of them. */

const BEST = 5;
const FEW = 8;

/* The first methods in the order of the leaderboard, with oracle and random; all where they are few. */
function usualChoice(board) {
  const real = board.methods.map((method, place) => place).filter((place) => !board.methods[place].control);
  const controls = board.methods
    .map((method, place) => place)
    .filter((place) => board.methods[place].control && /^(oracle|random)\b/.test(board.methods[place].name));
  return new Set([...real.slice(0, real.length <= FEW ? FEW : BEST), ...controls.slice(0, 2)]);
}

function makeChoice(board) {
  return { chosen: usualChoice(board), listeners: new Set() };
}

function choose(choice, places) {
  choice.chosen = new Set(places);
  for (const listener of choice.listeners) listener();
}

/* Buttons that put methods in and out. */
function legend(board, choice) {
  const all = board.methods.map((method, place) => place);
  const buttons = board.methods.map((method, place) => {
    const toggle = () => {
      const next = new Set(choice.chosen);
      if (!next.delete(place)) next.add(place);
      choose(choice, next);
    };
    return tip(el("button", { type: "button", onclick: toggle }, swatch(method.look), method.title), codeOf(method));
  });
  const preset = (text, places) =>
    el("button", { type: "button", class: "preset", onclick: () => choose(choice, places()) }, text);
  const show = () => buttons.forEach((button, place) => button.setAttribute("aria-pressed", choice.chosen.has(place)));
  choice.listeners.add(show);
  show();
  return el(
    "div",
    { class: "legend", role: "group", "aria-label": "Methods that are shown" },
    preset("usual", () => usualChoice(board)),
    preset("all", () => all),
    preset("none", () => []),
    buttons,
  );
}

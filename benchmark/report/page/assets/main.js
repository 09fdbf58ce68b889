"use strict";
/* Unpacks the data, draws the leaderboard first and all else when the page stands. */

async function unpacked(id) {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const nextFrame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const bodyOf = (id) => document.querySelector(`#${id} > div`);

/* Draws the parts of one task and model; what a later choice overtakes is not drawn. */
function makePainter(data) {
  let turn = 0;
  let examples = null;
  return async function paint(place) {
    const own = (turn += 1);
    const board = data.boards[place];
    const choice = makeChoice(board);
    showLeaderboard(bodyOf("leaderboard"), board, data.costs);
    bodyOf("examples").replaceChildren(el("p", { class: "note" }, "Loading …"));
    await nextFrame();
    document.documentElement.dataset.state = "shown";
    performance.mark("shown");
    const parts = [
      () => showDifferences(bodyOf("differences"), board),
      () => showCurves(bodyOf("curves"), board, choice),
      () => showAnalyses(bodyOf("analyses"), data.analyses),
      () => showCost(bodyOf("cost"), board, data.costs, choice),
      () => showRun(bodyOf("run"), board, data.links, data.command),
    ];
    for (const part of parts) {
      if (own !== turn) return;
      part();
      await nextFrame();
    }
    examples = examples || unpacked("example-data");
    const shown = (await examples)[place];
    if (own !== turn) return;
    showExamples(bodyOf("examples"), board, shown, choice);
    document.documentElement.dataset.state = "complete";
  };
}

async function start() {
  const data = await unpacked("overview-data");
  const paint = makePainter(data);
  let current = 0;
  const go = (place) => {
    current = place;
    paint(place);
  };
  const titles = data.boards.map((board) => ["", board.title]);
  const head = document.getElementById("place");
  if (titles.length > 1) head.append(chooser("Task and model", titles, 0, go));
  else head.append(el("b", {}, data.boards[0]?.title || "no run folders"));
  startTips();
  darkness.addEventListener("change", () => paint(current));
  if (titles.length) paint(0);
}

start();

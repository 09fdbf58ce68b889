"use strict";
/* What was run, with which settings and versions, and what could not be. */

function facts(entries) {
  return el("dl", { class: "outcome" }, entries.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function folded(title, ...content) {
  return el("details", {}, el("summary", {}, title), ...content);
}

function settingsOf(one) {
  const lines = [["class", one.class], ["version", one.version], one.target ? ["explained class", one.target] : null, one.statistics === undefined ? null : ["statistics, version", one.statistics], ["hash", el("code", {}, one.hash)], one.computed ? ["computed under", one.computed] : null];
  return folded(one.name, facts(lines.filter(Boolean)), el("pre", {}, one.settings));
}

function plainTable(heads, rows) {
  return el("table", { class: "plain" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))));
}

function showRun(host, board, links, command) {
  const { run } = board;
  const files = Object.entries(links);
  host.replaceChildren(
    facts(Object.entries(run.facts)),
    command ? el("h3", {}, "Command") : "",
    command ? el("pre", {}, command) : "",
    el("h3", {}, "Settings"),
    folded("task and model", el("pre", {}, run.settings)),
    el("h3", {}, "Methods"),
    ...run.methods.map(settingsOf),
    el("h3", {}, "Tests"),
    ...run.tests.map(settingsOf),
    el("h3", {}, "Dashes and remarks"),
    run.dashes.length ? folded(`${run.dashes.length} of them, with their reasons`, plainTable(["method", "test", "reason or remark"], run.dashes)) : el("p", { class: "note" }, "Every method could serve every test."),
    files.length ? el("h3", {}, "Files beside this page") : "",
    files.length ? el("ul", {}, files.map(([name, what]) => el("li", {}, el("a", { href: encodeURI(name) }, name), `: ${what}`))) : "",
  );
}

"use strict";
/* The leaderboard's part of the page: search, choice of columns, and a sign that the table goes on. */

function columnPicker(board, view, change) {
  const groups = new Map();
  for (const column of view.columns) {
    const name = column.kind === column.test ? column.kind : `${column.kind}: ${board.tests[column.test] ?? column.test}`;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(column);
  }
  const boxes = [];
  const toggle = (column) => {
    const label = checkbox(`${titled(column)}`, view.shown.has(column), (on) => {
      if (on) view.shown.add(column);
      else view.shown.delete(column);
      change();
    });
    boxes.push([column, label.querySelector("input")]);
    return tip(label, definition(column));
  };
  const set = (keep) => () => {
    view.shown = new Set(view.columns.filter(keep));
    for (const [column, box] of boxes) box.checked = view.shown.has(column);
    change();
  };
  return el(
    "details",
    { class: "picker" },
    el("summary", {}, "Columns"),
    el(
      "div",
      { class: "tools" },
      el("button", { type: "button", onclick: set((column) => column.headline) }, "headline"),
      el("button", { type: "button", onclick: set(() => true) }, "all"),
      el("button", { type: "button", onclick: set(() => false) }, "none"),
    ),
    [...groups].map(([name, columns]) => el("fieldset", {}, el("legend", {}, name), columns.map(toggle))),
  );
}

/* A frame that scrolls, with buttons and words that say how much lies on either side. */
function scrolling(label) {
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label });
  const frame = el("div", { class: "frame" }, box);
  const words = el("span");
  const move = (sign) => () => box.scrollBy({ left: sign * box.clientWidth * 0.6, behavior: "smooth" });
  const left = el("button", { type: "button", "aria-label": "Scroll the table left", onclick: move(-1) }, "←");
  const right = el("button", { type: "button", "aria-label": "Scroll the table right", onclick: move(1) }, "→");
  const hint = el("div", { class: "more" }, words, left, right);
  const update = () => {
    const edge = box.getBoundingClientRect().right;
    const beyond = [...box.querySelectorAll("thead tr:last-child th")].filter((cell) => cell.getBoundingClientRect().right > edge + 1).length;
    left.disabled = box.scrollLeft <= 1;
    right.disabled = box.scrollLeft + box.clientWidth >= box.scrollWidth - 1;
    frame.dataset.right = String(!right.disabled);
    hint.hidden = left.disabled && right.disabled;
    hint.style.display = hint.hidden ? "none" : "";
    words.textContent = beyond ? `${beyond} more ${beyond === 1 ? "column" : "columns"} to the right` : "";
  };
  box.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(box);
  return { box, update, parts: [hint, frame] };
}

function showLeaderboard(host, board, costs) {
  const columns = [...board.scalars, ...costColumns(board, costs)];
  const view = { columns, shown: new Set(columns.filter((column) => column.headline)), column: null, down: false, text: "", controls: true };
  const pane = scrolling(`Leaderboard of ${board.title}`);
  const status = el("p", { class: "note", role: "status" });
  const notes = el("ol", { class: "footnotes" });
  const sort = (column) => {
    view.down = view.column === column ? !view.down : column !== null && column.better === 1;
    view.column = column;
    draw();
  };
  function draw() {
    const place = pane.box.scrollLeft;
    const focused = document.activeElement?.dataset?.metric;
    const drawn = boardTable(board, view, sort);
    pane.box.replaceChildren(drawn.table);
    pane.box.scrollLeft = place;
    if (focused) [...pane.box.querySelectorAll(".sort")].find((button) => button.dataset.metric === focused)?.focus();
    notes.replaceChildren(...drawn.notes.map((note) => el("li", {}, note)));
    const order = view.column ? `${view.column.title}, ${view.down ? "largest" : "smallest"} first` : `mean rank over the headline metrics, ${view.down ? "worst" : "best"} first`;
    status.textContent = `${drawn.count} of ${board.methods.length} methods and controls, by ${order}.`;
    pane.update();
  }
  const search = el("input", { type: "search", placeholder: "name of a method", oninput: () => { view.text = search.value.trim().toLowerCase(); draw(); } });
  host.replaceChildren(...[
    el("p", { class: "note" }, "Point and whisker: value and 95 % interval over examples, on one scale per column (its ends are under the heading). ",
      el("b", {}, "Bold"), " is the best figure of a real method, ", el("u", {}, "underlined"), " the second, tested or not. Methods are compared on the same examples (below), never by whether two intervals overlap. ↑ higher is better, ↓ lower is better, no arrow: descriptive."),
    el("div", { class: "tools" }, el("label", {}, "Filter", search), checkbox("controls", true, (on) => { view.controls = on; draw(); })),
    columnPicker(board, view, draw),
    ...pane.parts,
    status,
    board.hidden && el("p", { class: "note" }, board.hidden),
    notes,
  ].filter(Boolean));
  draw();
}

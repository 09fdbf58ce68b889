"use strict";
// sorts a table by a click on a heading, and hides the rows without the words of its filter
for (const button of document.querySelectorAll("th .sort")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
    const column = Number(head.dataset.column);
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => {
      const cell = row.cells[column], order = cell.dataset.order;
      return order === undefined ? cell.textContent.trim().toLowerCase() : order === "" ? NaN : Number(order);
    };
    const rows = Array.from(body.rows, row => [key(row), row]);
    rows.sort(([a], [b]) => {
      const missing = Number(Number.isNaN(a)) - Number(Number.isNaN(b)); // what has no figure stands last either way
      if (missing || Number.isNaN(a)) return missing;
      return (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1);
    });
    body.append(...rows.map(([, row]) => row));
  });
}
for (const field of document.querySelectorAll("[data-filter]")) {
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.getElementById(field.dataset.filter).tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
}

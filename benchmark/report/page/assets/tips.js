"use strict";
/* One tooltip for the whole page. It opens on hover and on focus, and closes on Escape. */

function tip(node, text) {
  if (text) node.dataset.tip = text;
  return node;
}

function startTips() {
  const shown = document.getElementById("tip");
  let owner = null;

  function hide() {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    shown.hidden = true;
  }

  function show(node) {
    if (node === owner) return;
    hide();
    if (!node?.dataset.tip) return;
    owner = node;
    shown.textContent = node.dataset.tip;
    shown.hidden = false;
    node.setAttribute("aria-describedby", "tip");
    const [box, size] = [node.getBoundingClientRect(), shown.getBoundingClientRect()];
    const below = box.bottom + 6 + size.height <= window.innerHeight;
    const left = Math.min(box.left, document.documentElement.clientWidth - size.width - 8);
    shown.style.left = `${Math.max(8, left)}px`;
    shown.style.top = `${Math.max(8, below ? box.bottom + 6 : box.top - size.height - 6)}px`;
  }

  const nearest = (event) => (event.target instanceof Element ? event.target.closest("[data-tip]") : null);
  document.addEventListener("mouseover", (event) => show(nearest(event)));
  document.addEventListener("focusin", (event) => show(nearest(event)));
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("scroll", hide, { capture: true, passive: true });
}

// The map of the cell: the pointer over a square shows the machine, a click goes to it. Without this a
// rack leads to the list of its machines.
"use strict";

(() => {
  const AGE = 4000;
  const racks = new Map();
  const tip = document.createElement("div");
  const mark = document.createElement("div");
  tip.className = "map-tip";
  mark.className = "map-mark";
  tip.hidden = mark.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  mark.setAttribute("aria-hidden", "true");
  document.body.append(mark, tip);
  let pointer = null;

  // The square under the pointer: which of its rack, and where on the page.
  function square(event) {
    const rack = event.target.closest?.("svg.rack[data-rack]");
    if (!rack) return null;
    const box = rack.getBoundingClientRect();
    const columns = Number(rack.dataset.columns);
    const side = box.width / columns;
    const column = Math.min(Math.floor((event.clientX - box.left) / side), columns - 1);
    const row = Math.max(Math.floor((event.clientY - box.top) / side), 0);
    const index = row * columns + column;
    return { rack: rack.dataset.rack, index, left: box.left + column * side, top: box.top + row * side, side };
  }

  // What is known of a rack; it is asked for once it is pointed at, and again when that is old.
  function machines(rack) {
    const known = racks.get(rack) ?? { machines: [], at: -Infinity, asks: false };
    racks.set(rack, known);
    if (!known.asks && performance.now() - known.at > AGE) {
      known.asks = true;
      const query = new URLSearchParams({ rack });
      const at = new URLSearchParams(location.search).get("at");
      if (at) query.set("at", at);
      fetch(`/map?${query}`, { headers: { accept: "application/json" } })
        .then((answer) => (answer.ok ? answer.json() : { machines: [] }))
        .then((answer) => { known.machines = answer.machines; })
        .catch(() => { known.machines = []; })
        .finally(() => {
          known.asks = false;
          known.at = performance.now();
          show();
        });
    }
    return known.machines;
  }

  function hide() {
    pointer = null;
    tip.hidden = mark.hidden = true;
  }

  function show() {
    if (!pointer) return;
    const machine = machines(pointer.rack)[pointer.index];
    if (!machine) {
      tip.hidden = mark.hidden = true;
      return;
    }
    const [name, , lines] = machine;
    const heading = document.createElement("strong");
    heading.textContent = name;
    tip.replaceChildren(heading, ...lines.map((line) => {
      const text = document.createElement("div");
      text.textContent = line;
      return text;
    }));
    tip.hidden = mark.hidden = false;
    mark.style.left = `${pointer.left - 1}px`;
    mark.style.top = `${pointer.top - 1}px`;
    mark.style.width = mark.style.height = `${pointer.side + 1}px`;
    const left = Math.min(pointer.left + 14, innerWidth - tip.offsetWidth - 8);
    const above = pointer.top - tip.offsetHeight - 8;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${above > 8 ? above : pointer.top + pointer.side + 8}px`;
  }

  // A rack is a part of the page, and parts neither come nor go: with other racks it is another page.
  const digest = () => document.querySelector("[data-racks]")?.dataset.racks;
  const drawn = digest();
  document.addEventListener("sigma:part", () => {
    if (digest() !== drawn && drawn) location.reload();
  });
  document.addEventListener("pointermove", (event) => {
    const now = square(event);
    if (!now) {
      if (pointer) hide();
      return;
    }
    pointer = now;
    show();
  });
  document.addEventListener("scroll", () => { if (pointer) hide(); }, { passive: true, capture: true });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const at = square(event);
    const machine = at && racks.get(at.rack)?.machines[at.index];
    if (!machine) return;
    event.preventDefault();
    location.assign(machine[1]);
  });
})();

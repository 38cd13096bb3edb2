// What pages do beyond links and forms. Without it everything can be read.
"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// The theme: the system's, or the one that was chosen.
const themes = ["dark", "light"];
try {
  const chosen = localStorage.getItem("theme");
  if (themes.includes(chosen)) document.documentElement.dataset.theme = chosen;
} catch { /* Storage is off: the system's theme stays. */ }

function otherTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = dark ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* For this page alone. */ }
}

// Live parts: each is replaced as a whole when it has changed.
function replace(part) {
  const element = document.getElementById(part.id);
  if (!element) return;
  // What somebody is typing stays.
  const active = document.activeElement;
  if (active && element.contains(active) && active.matches("input, select, textarea")) return;
  const open = $$("details", element).map((details) => details.open);
  const scrolled = $$(".scroll, pre", element).map((box) => [box.scrollLeft, box.scrollTop]);
  const focused = active && element.contains(active) ? active.getAttribute("href") : null;
  const selected = $("tr.selected", element)?.dataset.href;
  element.innerHTML = part.html;
  $$("details", element).forEach((details, number) => { if (number in open) details.open = open[number]; });
  $$(".scroll, pre", element).forEach((box, number) => {
    if (number in scrolled) [box.scrollLeft, box.scrollTop] = scrolled[number];
  });
  if (focused) $$("a[href]", element).find((link) => link.getAttribute("href") === focused)?.focus();
  if (selected) $$("tr[data-href]", element).find((row) => row.dataset.href === selected)?.classList.add("selected");
  element.dispatchEvent(new CustomEvent("sigma:part", { bubbles: true }));
}

// A box that scrolls, and has nothing in it that takes the focus, takes it itself: else keys cannot scroll it.
function reach() {
  for (const box of $$(".scroll")) {
    const isWider = box.scrollWidth > box.clientWidth && !$("a, button, input, select", box);
    if (!isWider) {
      if (box.tabIndex === 0) ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
      continue;
    }
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    const title = $("caption", box) ?? $("h2", box.closest("section") ?? document);
    box.setAttribute("aria-label", title?.textContent || "Table");
  }
}

function live() {
  const main = $("#main[data-live]");
  if (!main) return;
  const lost = $("#lost");
  const mark = $("#live");
  const source = new EventSource(main.dataset.live);
  const isLost = (text) => {
    lost.hidden = false;
    if (text) lost.textContent = text;
    main.classList.add("stale");
    mark.classList.remove("is-live");
    mark.textContent = "not live";
  };
  source.addEventListener("part", (event) => replace(JSON.parse(event.data)));
  source.addEventListener("now", (event) => {
    lost.hidden = true;
    main.classList.remove("stale");
    mark.classList.add("is-live");
    mark.textContent = "live";
    const time = $("footer time");
    if (time) time.textContent = event.data + " UTC";
  });
  source.addEventListener("lost", (event) => isLost("Not live: " + event.data));
  source.addEventListener("error", () => {
    isLost("No answer: what you see is not live. Connecting again …");
    // The server has answered, and not with changes: the session is over, or there are too many pages.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 2000);
  });
  source.addEventListener("over", (event) => {
    source.close();
    dark(event.data);
  });
  addEventListener("pagehide", () => source.close());
}

// The session is over: nothing of the cell stays on the screen.
function dark(why) {
  const main = document.createElement("main");
  main.id = "main";
  main.className = "card";
  const heading = document.createElement("h1");
  heading.textContent = "Signed out";
  const text = document.createElement("p");
  text.textContent = why;
  const next = document.createElement("p");
  next.textContent = "Sign in again: ";
  const command = document.createElement("code");
  command.textContent = "bourg sigma open";
  next.append(command);
  main.append(heading, text, next);
  document.body.replaceChildren(main);
  document.title = "Signed out";
}

// Keys. A row that is selected with j and k comes before the page.
function rows() {
  return $$("#main tr[data-href]").filter((row) => row.offsetParent !== null);
}

function select(step) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("selected"));
  const next = now < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + step, 0), all.length - 1);
  all.forEach((row, number) => row.classList.toggle("selected", number === next));
  all[next].scrollIntoView({ block: "nearest" });
  $("a", all[next])?.focus({ preventScroll: true });
}

function go(key) {
  const row = $("tr.selected");
  const href = row?.dataset[key] ?? $(`a[data-key="${key}"]`)?.getAttribute("href");
  if (href) location.assign(href);
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, [data-keys-are-typed]")) {
    if (event.key === "Escape") event.target.blur?.();
    return;
  }
  switch (event.key) {
    case "/":
    case ":":
      event.preventDefault();
      $("#search")?.focus();
      break;
    case "j": select(1); break;
    case "k": select(-1); break;
    case "Enter": {
      const row = $("tr.selected");
      if (row && !event.target.closest("a, button, summary")) location.assign(row.dataset.href);
      break;
    }
    case "l":
    case "s":
    case "d":
    case "w":
    case "u": go(event.key); break;
    case "?": location.assign("/help"); break;
  }
}

// The slider: minutes before now, at most to the beginning of the cell.
function slider() {
  const slider = $("#slider");
  const text = $("#at");
  if (!slider || !text) return;
  slider.hidden = false;
  const at = text.value.match(/^(\d+)([mhd])$/);
  const minutes = { m: 1, h: 60, d: 1440 };
  if (at) slider.value = String(Math.max(-at[1] * minutes[at[2]], Number(slider.min)));
  slider.addEventListener("input", () => { text.value = slider.value === "0" ? "" : `${-slider.value}m`; });
  slider.addEventListener("change", () => text.form.requestSubmit());
  text.form.addEventListener("submit", () => { if (!text.value) text.disabled = true; });
}

function click(event) {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    navigator.clipboard?.writeText(copy.dataset.copy).then(() => {
      copy.classList.add("copied");
      setTimeout(() => copy.classList.remove("copied"), 1000);
    });
    return;
  }
  if (event.target.closest("#theme")) return otherTheme();
  // A whole row leads to its page.
  const row = event.target.closest("tr[data-href]");
  if (row && !event.target.closest("a, button, input, summary, time") && !getSelection().toString()) {
    location.assign(row.dataset.href);
  }
}

// What cannot be taken back is asked about first.
function submit(event) {
  const question = event.target.dataset.asks;
  if (question && !confirm(question)) event.preventDefault();
}

document.addEventListener("keydown", key);
document.addEventListener("click", click);
document.addEventListener("submit", submit);
const theme = $("#theme");
if (theme) theme.hidden = false;
slider();
reach();
addEventListener("resize", reach);
document.addEventListener("sigma:part", reach);
live();

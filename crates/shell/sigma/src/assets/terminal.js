// Logs as they are written, and terminals in tasks.
"use strict";

// A log. Lines come marked up, with their text escaped.
(() => {
  const LINES_MAX = 5000;
  const box = document.getElementById("log");
  const button = document.getElementById("follow");
  const says = document.getElementById("follow-says");
  if (!box) return;
  const toEnd = () => { box.scrollTop = box.scrollHeight; };
  toEnd();
  if (!button || !box.dataset.follow) return;
  let source = null;
  let fresh = false;

  function stop(text) {
    source?.close();
    source = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow";
    says.textContent = text;
  }

  function add(html) {
    // A reader who has scrolled up stays there.
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    // A stream begins with the last lines, also after a break.
    if (fresh) box.replaceChildren();
    fresh = false;
    box.insertAdjacentHTML("beforeend", html);
    while (box.childElementCount > LINES_MAX) box.firstElementChild.remove();
    if (box.childElementCount) document.getElementById("log-empty")?.remove();
    if (isAtEnd) toEnd();
  }

  function start() {
    button.setAttribute("aria-pressed", "true");
    button.textContent = "Stop following";
    says.textContent = "Connecting …";
    toEnd();
    source = new EventSource(box.dataset.follow);
    source.addEventListener("open", () => { fresh = true; says.textContent = "Following"; });
    source.addEventListener("lines", (event) => add(JSON.parse(event.data).html));
    source.addEventListener("end", () => stop("The task has ended."));
    source.addEventListener("lost", (event) => stop(event.data));
    source.addEventListener("over", () => location.reload());
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CLOSED) stop("It cannot be followed now: load this page again.");
      else says.textContent = "No answer. Connecting again …";
    });
  }

  button.hidden = false;
  button.addEventListener("click", () => { if (source) stop("Stopped"); else start(); });
  addEventListener("pagehide", () => source?.close());
})();

// A terminal. The server interprets what the program writes and sends the rows that are different, marked
// up; keys go to it as the bytes that they are.
(() => {
  const PIECE = 4000;
  const QUEUE_MAX = 1 << 20;
  const CURSOR = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
  const TILDE = {
    Insert: 2, Delete: 3, PageUp: 5, PageDown: 6,
    F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F11: 23, F12: 24,
  };
  const FUNCTION = { F1: "P", F2: "Q", F3: "R", F4: "S" };
  const CONTROL = { " ": 0, "@": 0, "[": 27, "\\": 28, "]": 29, "^": 30, "_": 31, "/": 31, "?": 127 };

  const form = document.getElementById("terminal-form");
  if (!form) return;
  const whole = document.getElementById("terminal");
  const says = document.getElementById("terminal-says");
  const closing = document.getElementById("terminal-close");
  const opening = form.querySelector("[type=submit]");
  const keys = whole.querySelector(".keys");
  const screen = whole.querySelector(".screen");
  const encoder = new TextEncoder();
  // The terminal that is open, if one is.
  let open = null;

  const say = (text) => { says.textContent = text; };

  function post(path, body, keepalive = false, id = open.id) {
    const headers = { "x-csrf": form.elements.csrf.value };
    return fetch(`/terminal/${id}/${path}`, { method: "POST", headers, body, keepalive });
  }

  // The size of the screen in characters.
  function size() {
    const probe = document.createElement("div");
    probe.className = "row probe";
    probe.textContent = "W".repeat(50);
    screen.append(probe);
    const { width, height } = probe.getBoundingClientRect();
    probe.remove();
    const style = getComputedStyle(screen);
    const inner = (all, one, other) => all - parseFloat(style[one]) - parseFloat(style[other]);
    return {
      rows: Math.floor(inner(screen.clientHeight, "paddingTop", "paddingBottom") / height),
      columns: Math.floor(inner(screen.clientWidth, "paddingLeft", "paddingRight") / (width / 50)),
    };
  }

  // Sends what waits, one request after the other, so that keys stay in their order.
  async function send() {
    const terminal = open;
    if (terminal.isSending) return;
    terminal.isSending = true;
    while (terminal === open && terminal.queue) {
      let piece = terminal.queue.slice(0, PIECE);
      // Not between the halves of a character.
      if (/[\ud800-\udbff]$/.test(piece) && terminal.queue.length > PIECE) piece = piece.slice(0, -1);
      try {
        const answer = await post("keys", encoder.encode(piece));
        if (answer.ok) {
          terminal.queue = terminal.queue.slice(piece.length);
        } else if (answer.status === 429) {
          await new Promise((again) => setTimeout(again, 250));
        } else {
          if (terminal === open) over(await answer.text());
          break;
        }
      } catch {
        say("No answer. Keys wait …");
        await new Promise((again) => setTimeout(again, 1000));
      }
    }
    terminal.isSending = false;
  }

  function type(text) {
    if (!open || !text) return;
    if (open.queue.length + text.length > QUEUE_MAX) return say("Too much waits to be typed.");
    open.queue += text;
    send();
  }

  // What a key sends; null if the browser has to know, or its text comes as input.
  function bytes(event) {
    const { key } = event;
    if (event.metaKey || event.getModifierState("AltGraph")) return null;
    const modifiers = 1 + event.shiftKey + 2 * event.altKey + 4 * event.ctrlKey;
    const escape = event.altKey ? "\x1b" : "";
    if (key in CURSOR) {
      if (modifiers > 1) return `\x1b[1;${modifiers}${CURSOR[key]}`;
      return (open.application ? "\x1bO" : "\x1b[") + CURSOR[key];
    }
    if (key === "Insert" && event.shiftKey) return null;
    if (key in TILDE) return modifiers > 1 ? `\x1b[${TILDE[key]};${modifiers}~` : `\x1b[${TILDE[key]}~`;
    if (key in FUNCTION) return modifiers > 1 ? `\x1b[1;${modifiers}${FUNCTION[key]}` : `\x1bO${FUNCTION[key]}`;
    switch (key) {
      case "Enter": return escape + "\r";
      case "Backspace": return escape + (event.ctrlKey ? "\b" : "\x7f");
      case "Tab": return event.ctrlKey ? null : event.shiftKey ? "\x1b[Z" : escape + "\t";
      case "Escape": return escape + "\x1b";
    }
    if ([...key].length !== 1) return null;
    if (event.ctrlKey) {
      const letter = key.toLowerCase();
      if (letter >= "a" && letter <= "z") {
        // Ctrl+Shift and a letter is the browser's: copy and paste.
        return event.shiftKey ? null : escape + String.fromCharCode(letter.charCodeAt(0) & 31);
      }
      return key in CONTROL ? escape + String.fromCharCode(CONTROL[key]) : null;
    }
    return event.altKey && key <= "~" ? escape + key : null;
  }

  function paste(text) {
    const lines = text.replace(/\r\n|\n/g, "\r");
    // What is pasted cannot end its own mark.
    type(open?.paste ? `\x1b[200~${lines.replaceAll("\x1b", "")}\x1b[201~` : lines);
  }

  function show(frame) {
    open.application = frame.application;
    open.paste = frame.paste;
    while (screen.childElementCount > frame.count) screen.lastElementChild.remove();
    while (screen.childElementCount < frame.count) {
      const row = document.createElement("div");
      row.className = "row";
      screen.append(row);
    }
    for (const [number, html] of frame.rows) screen.children[number].innerHTML = html;
    // The place where an input method shows its candidates.
    const cursor = screen.querySelector(".cursor");
    if (cursor) {
      keys.style.left = `${cursor.offsetLeft}px`;
      keys.style.top = `${cursor.offsetTop - screen.scrollTop}px`;
    }
  }

  function over(text) {
    open?.source.close();
    open = null;
    whole.querySelector(".terminal").classList.add("is-over");
    const hadFocus = [keys, closing].includes(document.activeElement);
    keys.disabled = closing.disabled = true;
    form.elements.command.disabled = opening.disabled = false;
    if (hadFocus) opening.focus();
    say(text);
  }

  function watch(id) {
    const source = new EventSource(`/terminal/${id}/screen`);
    open = { id, source, queue: "", isSending: false, application: false, paste: false };
    source.addEventListener("open", () => say("Open"));
    source.addEventListener("screen", (event) => show(JSON.parse(event.data)));
    source.addEventListener("end", (event) => over(event.data));
    source.addEventListener("over", () => location.reload());
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) over("This terminal is closed.");
      else say("No answer. Connecting again …");
    });
  }

  async function begin() {
    say("Opening …");
    whole.hidden = false;
    // Keys that are typed before the terminal is open wait here.
    keys.disabled = false;
    keys.value = "";
    keys.focus();
    screen.replaceChildren();
    const fields = new URLSearchParams(new FormData(form));
    for (const [name, value] of Object.entries(size())) fields.set(name, value);
    try {
      const answer = await fetch("/terminal", { method: "POST", body: fields });
      if (!answer.ok) {
        whole.hidden = true;
        opening.focus();
        return say(await answer.text());
      }
      watch((await answer.json()).id);
    } catch {
      whole.hidden = true;
      opening.focus();
      return say("No answer: it is not open.");
    }
    whole.querySelector(".terminal").classList.remove("is-over");
    form.elements.command.disabled = opening.disabled = true;
    closing.disabled = false;
    take();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!open) begin();
  });
  closing.addEventListener("click", () => {
    if (open) {
      // A second time, if the network has failed; after a minute the server closes it by itself.
      const { id } = open;
      const again = () => { post("close", null, false, id).catch(() => {}); };
      post("close").catch(() => setTimeout(again, 1000));
    }
    over("Closed");
  });
  keys.addEventListener("keydown", (event) => {
    if (!open || event.isComposing) return;
    event.stopPropagation();
    if (event.ctrlKey && event.shiftKey && (event.key === "Escape" || event.code === "Space")) {
      event.preventDefault();
      return closing.focus();
    }
    const typed = bytes(event);
    if (typed === null) return;
    event.preventDefault();
    type(typed);
  });
  // Letters, also those of input methods and of keyboards on screens.
  function take() {
    if (!open) return;
    type(keys.value.replaceAll("\n", "\r"));
    keys.value = "";
  }
  keys.addEventListener("input", (event) => { if (!event.isComposing) take(); });
  keys.addEventListener("compositionend", take);
  keys.addEventListener("paste", (event) => {
    event.preventDefault();
    paste(event.clipboardData.getData("text/plain"));
  });
  screen.addEventListener("click", () => { if (getSelection().isCollapsed) keys.focus({ preventScroll: true }); });

  let waits = null;
  new ResizeObserver(() => {
    clearTimeout(waits);
    waits = setTimeout(() => { if (open) post("size", new URLSearchParams(size())).catch(() => {}); }, 200);
  }).observe(screen);
  addEventListener("pagehide", () => { if (open) post("close", null, true).catch(() => {}); });
  form.hidden = false;
  // One key opens it.
  opening.focus({ preventScroll: true });
})();

// What pages do besides what htmx does: keys, ticks, toasts, the theme, and news as they happen.
"use strict";

const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
const isTyping = (element) =>
  element instanceof HTMLElement &&
  (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) &&
  element.type !== "checkbox";

// A code behind the address signs in by itself; it is never sent as a part of an address.
function signIn() {
  const form = $("[data-login]");
  const code = decodeURIComponent(location.hash.slice(1));
  if (!form || !code) return;
  history.replaceState(null, "", location.pathname);
  form.elements.code.value = code;
  if (sessionStorage.tried === code) return; // it was refused
  sessionStorage.tried = code;
  form.submit();
}

function switchTheme() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme === "system" ? (dark ? "dark" : "light") : root.dataset.theme;
  root.dataset.theme = now === "dark" ? "light" : "dark";
  document.cookie = `memplane_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
}

// Ticks.
function countTicks() {
  const bar = $("[data-bulk-bar]");
  if (!bar) return;
  const ticked = $$('input[name="ids"]:checked').length;
  bar.classList.toggle("on", ticked > 0);
  $("[data-bulk-count]", bar).textContent = `${ticked} ticked:`;
  if (!ticked) $("#bulk-confirm")?.replaceChildren();
}

// What an address tells was done is told once: it is not told again when the page is loaded again.
function forgetTold() {
  const address = new URL(location.href);
  for (const name of ["done", "action", "batch"]) address.searchParams.delete(name);
  history.replaceState(history.state, "", address);
}

// Toasts go after a while; those with something to undo stay longer, and all stay while looked at.
function watchToasts() {
  for (const toast of $$("[data-toast]:not([data-seen])")) {
    toast.dataset.seen = "";
    for (const back of $$("[data-back-here]", toast)) back.value = location.pathname + location.search;
    if ("told" in toast.dataset) forgetTold();
    const lasts = $("[data-undo]", toast) ? 20000 : 6000;
    let timer = setTimeout(() => toast.remove(), lasts);
    toast.addEventListener("pointerenter", () => clearTimeout(timer));
    toast.addEventListener("focusin", () => clearTimeout(timer));
    toast.addEventListener("pointerleave", () => { timer = setTimeout(() => toast.remove(), lasts); });
  }
}

// Keys.
let at = -1;
const rows = () => $$("tr[data-memory]");
function go(step) {
  const all = rows();
  if (!all.length) return;
  at = Math.min(Math.max(at + step, 0), all.length - 1);
  all[at].focus();
  all[at].scrollIntoView({ block: "nearest" });
}
function onRow(act) {
  const row = document.activeElement?.closest?.("tr[data-memory]") ?? rows()[at];
  if (row) act(row);
}
const keys = {
  "/": () => $("#q")?.focus(),
  j: () => go(1),
  k: () => go(-1),
  e: () => onRow((row) => $('[data-act="edit"]', row)?.click()),
  x: () => onRow((row) => $('input[name="ids"]', row)?.click()),
  p: () => onRow((row) => $('[data-act="pin"]', row)?.click()),
  "#": () => onRow((row) => $('[data-act="retire"]', row)?.click()),
  u: () => $$("[data-undo]").at(-1)?.click(),
  "?": () => $("#help")?.showModal(),
};

// Esc leaves what somebody is in. In the search it also clears the box, and with it the list; when
// nothing is left to leave, it takes the filters away. Whose memories and in which order stays.
function escape() {
  const active = document.activeElement;
  const editing = active?.closest?.("[data-editing]");
  if (editing) return $("[data-cancel]", editing)?.click();
  if (isTyping(active)) {
    if (active.matches("#search input[type=search]")) clearSearch(active);
    return active.blur();
  }
  if ($("[data-list]") && !$("dialog[open], [data-editing], input[name='ids']:checked")) clearFilters();
}
function clearSearch(box) {
  if (!box.value) return;
  box.value = "";
  box.dispatchEvent(new Event("input", { bubbles: true }));
}
function clearFilters() {
  const address = new URL(location.href);
  const filters = [...address.searchParams].filter(
    ([name, value]) => value && !["agent", "sort", "dir", "group"].includes(name));
  if (!filters.length) return;
  for (const [name] of filters) address.searchParams.delete(name);
  $("#q").value = "";
  htmx.ajax("GET", address.pathname + address.search, { target: "#list", push: "true" });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return escape();
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(document.activeElement)) return;
  const act = keys[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

document.addEventListener("click", (event) => {
  const on = (selector) => event.target.closest(selector);
  if (on("[data-theme-toggle]")) switchTheme();
  if (on("[data-help]")) $("#help").showModal();
  if (on("[data-dismiss]")) $("#bulk-confirm")?.replaceChildren();
  if (on("[data-new]")) refreshList();
  if (on("[data-open-add]")) {
    event.preventDefault(); // Going to its place would take the focus away again.
    $("#add")?.classList.add("open");
    $("#add-observation")?.focus();
  }
});

document.addEventListener("change", (event) => {
  event.target.closest("[data-submits]")?.requestSubmit();
  if (event.target.matches("[data-fills]")) {
    const place = document.getElementById(event.target.dataset.fills);
    event.target.files[0]?.text().then((text) => { place.value = text; });
  }
  if (event.target.matches("[data-tick-all]")) {
    for (const box of $$('input[name="ids"]')) box.checked = event.target.checked;
  }
  if (event.target.matches('[data-tick-all], input[name="ids"]')) countTicks();
});

// After a part of the page was replaced, the focus goes where it was, or into the new form.
let focused = null;
document.addEventListener("htmx:beforeSwap", () => {
  focused = document.activeElement?.closest?.("tr[data-memory]")?.id ?? null;
});
document.addEventListener("htmx:afterSettle", () => {
  const form = $("[data-editing] [data-first]");
  if (form && !document.activeElement?.closest?.("[data-editing]") && focused) form.focus();
  else if (focused && !document.activeElement?.closest?.("tr[data-memory]")) {
    document.getElementById(focused)?.focus();
  }
  focused = null;
  countTicks();
  watchToasts();
});
// A toast knows where to come back to before anybody can press its button.
document.addEventListener("htmx:oobAfterSwap", () => watchToasts());
document.addEventListener("htmx:responseError", (event) => say(event.detail.xhr.status === 401
  ? "You are signed out. Load the page again." : "That did not work. Load the page again."));
document.addEventListener("htmx:sendError", () => say("memplane does not answer."));

function say(words) {
  const toast = document.createElement("div");
  toast.className = "toast";
  toast.dataset.toast = "";
  toast.textContent = words;
  $("#toasts")?.append(toast);
  watchToasts();
}

// News: rows are replaced as they change, never one that somebody edits; new ones are counted.
const news = new Set();
function hear(told) {
  refreshSoon();
  if (!told.memory_id || !$("[data-list]")) return;
  const row = document.getElementById(`memory-${told.memory_id}`);
  if (row) {
    if (isBusy(row)) return;
    htmx.ajax("GET", `/memories/${told.memory_id}/row`, { target: `#${row.id}`, swap: "outerHTML" });
    return;
  }
  if (told.kind !== "asserted") return;
  const agent = new URLSearchParams(location.search).get("agent");
  if (agent && agent !== told.agent) return;
  news.add(told.memory_id);
  const pill = $("[data-new]");
  if (pill) {
    pill.hidden = false;
    pill.textContent = `${news.size} new`;
    $("#live").textContent = `${news.size} new ${news.size === 1 ? "memory" : "memories"}`;
  }
}
const isBusy = (row) =>
  row.matches("[data-editing]") || row.contains(document.activeElement) ||
  $('input[name="ids"]', row)?.checked || $(".htmx-request", row);
function refreshList() {
  if ($("[data-editing]")) return say("Finish your edit first.");
  news.clear();
  htmx.ajax("GET", location.pathname + location.search, { target: "#list" });
}
// A page that only shows is shown anew a moment after something happened, unless somebody is in it.
let soon = 0;
function refreshSoon() {
  const part = $("[data-refresh]");
  if (!part || soon) return;
  soon = setTimeout(() => {
    soon = 0;
    if (part.contains(document.activeElement)) return;
    htmx.ajax("GET", location.pathname + location.search, { target: `#${part.id}`, select: `#${part.id}`, swap: "outerHTML" });
  }, 1500);
}
// Where no stream comes through, rows are asked for every few seconds instead.
function poll() {
  setInterval(() => {
    if ($("[data-editing], input[name='ids']:checked") || isTyping(document.activeElement)) return;
    if ($("[data-list]")) refreshList();
    else refreshSoon();
  }, 5000);
}
function watch() {
  if (!window.htmx || !$("[data-refresh], [data-list]")) return;
  if (!window.EventSource) return poll();
  const source = new EventSource("/live");
  let away = false;
  source.addEventListener("change", (event) => hear(JSON.parse(event.data)));
  source.addEventListener("open", () => { if (away) { away = false; say("Connected again."); } });
  source.addEventListener("error", () => {
    // A stream that was refused stays closed: the session is over, or something is in between.
    if (source.readyState === EventSource.CLOSED) return poll();
    if (!away) { away = true; say("memplane does not answer. Trying again …"); }
  });
  addEventListener("pagehide", () => source.close());
}

signIn();
addEventListener("hashchange", signIn);
if (innerWidth < 1280) for (const one of $$("[data-facets]")) one.open = false;
// On a phone the pages stand in one line, which may be longer than the screen.
$(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
countTicks();
watchToasts();
watch();

// The documents of this visitor: uploaded, prepared for questions, listed, removed, and missed after a restart.

import * as api from "./api.js";
import { $, announce, button, dot, element, dismiss, notify } from "./dom.js";
import { forget, newKey, save, state } from "./store.js";
import { Text } from "./text.js";
import * as words from "./words.js";

const COLORS = 8;
const AT_ONCE = 2; // uploads
const POLL_SECONDS = 1;

export const info = { store: false, max_megabytes: null, formats: [] };
const contents = new Map(); // of documents by their id: promises
const listeners = [];
const waiting = []; // uploads that have not begun: functions
let running = 0;
let polling = false;

/** Call a function whenever the documents, or what is known about them, change. */
export const onChange = (listener) => listeners.push(listener);

function changed() {
  save();
  update();
}

/** Show the documents as they are now. */
export function update() {
  show();
  for (const listener of listeners) listener();
}

export const byKey = (key) => state.documents.find((held) => held.key === key);
export const byId = (id) => state.documents.find((held) => held.id === id);
export const askable = () => state.documents.filter((held) => held.id && !held.lost);
export const uploads = () => state.documents.map((held) => held._uploading).filter(Boolean);

/** The text, the outline and, of a PDF, the sizes of the pages. */
export function content(held) {
  if (!contents.has(held.id)) {
    const loading = load(held);
    contents.set(held.id, loading);
    loading.catch((error) => {
      contents.delete(held.id);
      if (error.status === 404) lose([held]);
    });
  }
  return contents.get(held.id);
}

async function load({ id, kind }) {
  const path = `/documents/${encodeURIComponent(id)}`;
  const [text, outline, sizes] = await Promise.all([
    api.text(`${path}/text`),
    api.json(`${path}/outline`),
    kind === "pdf" ? api.json(`${path}/pages`).catch(withoutPages) : [],
  ]);
  return { path, text: new Text(text), outline, sizes };
}

/** A PDF whose pages cannot be drawn is shown as text. */
function withoutPages(error) {
  if (error.status === 422) return [];
  throw error;
}

function freeColor() {
  const uses = Array(COLORS).fill(0);
  for (const held of state.documents) uses[held.color] += 1;
  return uses.indexOf(Math.min(...uses));
}

/** Hold a document from its upload on; `send` gets (progress, signal) and gives what the server holds. */
function hold(name, send) {
  const leaving = new AbortController();
  const held = { key: newKey(), id: "", name, color: freeColor(), lost: false, prepared: 0 };
  Object.assign(held, { _share: 0, _leaving: leaving, _before: state.shown, _uploading: true });
  const progress = (share) => ((held._share = share), show());
  state.documents.push(held);
  held._uploading = upload(held, () => send(progress, leaving.signal));
  changed();
}

async function upload(held, send) {
  try {
    if (running >= AT_ONCE) await new Promise((resolve) => waiting.push(resolve));
    running += 1;
    arrived(held, await send().finally(() => ((running -= 1), waiting.shift()?.())));
  } catch (error) {
    drop(held);
    if (error.name !== "AbortError") complain(held.name, error.message);
  } finally {
    held._uploading = null;
    changed();
  }
}

const complain = (name, message) =>
  notify(message.includes(name) ? message : `${name}: ${message}`, { about: `file ${name}` });

/** A document was read. One that the server had lost takes its place again, so its answers lead to it. */
function arrived(held, sent) {
  const same = (old) => old.lost && old.name === sent.name && old.characters === sent.characters;
  const lost = state.documents.find(same);
  if (lost) drop(held);
  Object.assign(lost ?? held, sent, { lost: false });
  if (!state.documents.some((other) => other.lost)) dismiss("gone");
  dismiss(`file ${sent.name}`);
  if (state.shown === held._before) state.shown = (lost ?? held).key; // of several, the first that is read
  announce(`${sent.name} is read: ${words.size(sent)}.`);
  poll();
}

const drop = (held) => (state.documents = state.documents.filter((other) => other !== held));

export function addFiles(files) {
  for (const file of files) {
    const most = info.max_megabytes;
    if (most && file.size > most * 1_000_000)
      notify(`${file.name}: the file has ${(file.size / 1e6).toFixed(0)} MB, and the server reads at most ${most} MB.`);
    else hold(file.name, (progress, signal) => api.upload(file, progress, signal));
  }
}

export function addText(text, name) {
  const body = { text, name };
  hold(name, (progress, signal) => (progress(1), api.json("/documents", { method: "POST", body, signal })));
}

export function remove(held) {
  held._leaving?.abort();
  const index = state.documents.indexOf(held);
  drop(held);
  forget(held);
  if (!state.documents.some((other) => other.lost)) dismiss("gone");
  if (held.id && !held.lost) api.request(`/documents/${held.id}`, { method: "DELETE" }).catch(() => {});
  if (state.shown === held.key) state.shown = (state.documents[index] ?? state.documents[index - 1])?.key ?? "";
  changed();
  announce(`${held.name} is removed.`);
  ($("documents").querySelectorAll(".choose")[Math.max(0, index - 1)] ?? $("add")).focus();
}

/** Show a document; changes nothing else. */
export function choose(held) {
  state.shown = held.key;
  changed();
  $("documents").querySelector(`[data-key="${held.key}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function lose(missing) {
  const news = missing.filter((held) => !held.lost);
  if (!news.length) return;
  for (const held of news) held.lost = true;
  const lost = state.documents.filter((held) => held.lost);
  const sentence = words.gone(lost.map((held) => held.name), info.store);
  notify(sentence, { action: { label: "Add files", run: () => $("file").click() }, about: "gone" });
  changed();
}

/** Ask the server which documents it still has, and how far each is prepared. */
export async function refresh(some = askable()) {
  const missing = [];
  await Promise.all(
    some.map(async (held) => {
      try {
        const { prepared, notes } = await api.json(`/documents/${encodeURIComponent(held.id)}`);
        Object.assign(held, { prepared: prepared ?? 1, notes: notes ?? [] });
      } catch (error) {
        if (error.status === 404) missing.push(held);
      }
    }),
  );
  lose(missing);
  show();
}

async function poll() {
  if (polling) return;
  polling = true;
  for (;;) {
    const unprepared = askable().filter((held) => held.prepared < 1);
    if (!unprepared.length) break;
    if (document.visibilityState === "visible") await refresh(unprepared);
    await new Promise((resolve) => setTimeout(resolve, 1000 * POLL_SECONDS));
  }
  polling = false;
  save();
}

/** What the list says about a document. */
function condition(held) {
  if (held._uploading) return words.uploaded(held._share);
  if (held.lost) return "no longer on the server";
  return held.prepared < 1 ? `${words.size(held)}, ${words.prepared(held.prepared)}` : words.size(held);
}

function entry(held) {
  const isShown = held.key === state.shown;
  const share = held._uploading ? held._share : held.prepared;
  const bar = element("span", { class: "share", "aria-hidden": "true" });
  bar.style.width = `${held.lost || share >= 1 ? 0 : 100 * share}%`;
  return element(
    "li",
    { class: held.lost ? "lost" : held._uploading ? "arriving" : null, "data-color": held.color, "data-key": held.key },
    button(
      { class: "choose", "aria-current": isShown ? "true" : null, title: held.name, click: () => choose(held) },
      dot(held.color),
      element("span", { class: "name" }, held.name),
      element("small", {}, condition(held)),
      bar,
    ),
    button({ class: "icon", "aria-label": `Remove ${held.name}`, title: "Remove", click: () => remove(held) }, "×"),
  );
}

/** Update the list, and keep the focus where it is. */
function show() {
  const focused = $("documents").contains(document.activeElement) && document.activeElement;
  const [key, name] = focused ? [focused.closest("li").dataset.key, focused.className] : [];
  $("documents").replaceChildren(...state.documents.map(entry));
  if (key) $("documents").querySelector(`[data-key="${key}"] .${name}`)?.focus();
  document.body.classList.toggle("no-documents", !state.documents.length);
}

/** Show the documents of the last visit, and check that the server still has them. */
export async function start() {
  show();
  try {
    Object.assign(info, await api.json("/info"));
  } catch {
    // an older server
  }
  $("keeping").textContent = words.keeping(info.store);
  $("promise").textContent = `Nothing leaves this server. ${$("keeping").textContent}`;
  if (info.formats.length) $("file").accept = info.formats.join(",");
  await refresh();
  poll();
}

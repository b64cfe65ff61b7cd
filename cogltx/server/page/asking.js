// Asking: a question from the moment it is asked to its answer, with progress; it can be cancelled and asked again.

import * as api from "./api.js";
import { announce } from "./dom.js";
import * as documents from "./documents.js";
import { newKey, save, state } from "./store.js";
import { headingAt } from "./text.js";
import * as words from "./words.js";

const LOWEST_SHOWN = 0.01; // confidence of an alternative
let isLeaving = false; // the page is being left: what fails now is not a failure

export const listeners = { changed: () => {}, progressed: () => {} }; // of an item

/** A new question about the document with a key, or about all. */
export function newItem(question, scope) {
  const asked = new Date().toISOString();
  const item = { key: newKey(), question, asked, scope, documents: [], state: "", result: null };
  state.items.push(item);
  return item;
}

/** The documents that a question is about: those of its first time, if they are there. */
function about(item) {
  const askable = documents.askable();
  const before = askable.filter((held) => item.documents.some(({ key }) => key === held.key));
  const chosen = askable.filter((held) => held.key === item.scope);
  return [before, chosen, askable].find((some) => some.length) ?? [];
}

function become(item, name, message = "") {
  Object.assign(item, { state: name, message: words.sentence(message) });
  Object.assign(item, { _progress: null, _leaving: null, _evidence: [] });
  save();
  listeners.changed(item);
}

export async function ask(item) {
  const leaving = new AbortController();
  Object.assign(item, { result: null, correction: null, _isPreliminary: true });
  become(item, "asking");
  const stage = documents.uploads().length ? "upload" : "waiting";
  Object.assign(item, { _leaving: leaving, _progress: { stage, share: 0 } });
  listeners.progressed(item);
  announce("The answer is being looked for.");
  try {
    await untilUploaded(leaving.signal);
    const asked = about(item);
    if (!asked.length) return become(item, "failed", "There is no document to ask about. Add one, then ask again.");
    item.documents = asked.map(({ key, name, color }) => ({ key, name, color }));
    save();
    item.result = await answered(item, asked, leaving.signal);
    become(item, "answered");
    announce(`Answer: ${words.verdict(item.result, item.documents)}`);
  } catch (error) {
    if (!isLeaving) await failed(item, error);
  }
}

function untilUploaded(signal) {
  const cancelled = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  return Promise.race([Promise.all(documents.uploads()), cancelled]);
}

async function answered(item, asked, signal) {
  const body = { question: item.question, documents: asked.map(({ id }) => id) };
  const on = {
    progress: (progress) => {
      item._progress = progress;
      listeners.progressed(item);
    },
    evidence: async ({ evidence, names, preliminary }) => {
      const passages = await placed(evidence, names, asked);
      if (item._leaving?.signal !== signal) return; // the answer was faster
      Object.assign(item, { _evidence: passages, _isPreliminary: preliminary });
      listeners.changed(item);
    },
  };
  return resultOf(await api.answer(body, on, signal), asked);
}

/** What the page keeps of a prediction: the passage with the answer is the first. */
async function resultOf(prediction, asked) {
  const { answer, confidence, no_answer_confidence, names } = prediction;
  const others = prediction.alternatives.filter((other) => other.confidence >= LOWEST_SHOWN);
  const [[main], alternatives, passages] = await Promise.all(
    [[prediction], others, prediction.evidence].map((found) => placed(found, names, asked)),
  );
  const { document, start, end, page, place } = main;
  const best = start === null ? alternatives[0] : main;
  const has = (one) => best?.document === one.document && one.start <= best.start && best.start < one.end;
  passages.sort((a, b) => has(b) - has(a));
  return { answer, confidence, no_answer_confidence, document, start, end, page, place, alternatives, passages };
}

/** Give places that were found the key of their document, and a name that people understand. */
function placed(found, names, asked) {
  return Promise.all(
    found.map(async ({ text, start, end, confidence, document, page }) => {
      const held = document && asked.length > 1 ? documents.byId(names?.[document]) : asked[0];
      const one = { text, start, end, confidence, page, document: held?.key ?? "", place: "" };
      if (start === null || !held) return one;
      return { ...one, ...(await whereabouts(held, start, page, text)) };
    }),
  );
}

/** The place of a passage, and the length of the heading that the passage begins with, which need not be repeated. */
async function whereabouts(held, start, page, passage) {
  try {
    const heading = headingAt((await documents.content(held)).outline.segments, start);
    const isFirst = heading && passage?.startsWith(heading) && passage.slice(heading.length).trim();
    return { place: await placeOf(held, start, page), skipped: isFirst ? heading.length : 0 };
  } catch {
    return { place: words.place({ page }) };
  }
}

export async function placeOf(held, start, page) {
  const { outline, text } = await documents.content(held);
  const isPlain = !outline.segments.length && !outline.pages.length;
  return words.place({ page, heading: headingAt(outline.segments, start), line: isPlain ? text.line(start) : 0 });
}

async function failed(item, error) {
  if (error.name === "AbortError") return become(item, "cancelled");
  if (error.status === 404) await documents.refresh();
  const lost = item.documents.map(({ key }) => documents.byKey(key)).filter((held) => held?.lost);
  const message = lost.length ? words.gone(lost.map(({ name }) => name), documents.info.store) : error.message;
  become(item, "failed", message);
  announce(`No answer: ${message}`);
}

export const cancel = (item) => item._leaving?.abort();

/** Questions that a reload interrupted are asked again; those of an earlier visit wait for the visitor. */
export function resume() {
  const isReload = performance.getEntriesByType("navigation")[0]?.type === "reload";
  for (const item of state.items.filter((one) => one.state === "asking")) {
    if (isReload && documents.askable().length) ask(item);
    else become(item, "interrupted", "The page was closed before the answer came.");
  }
}

window.addEventListener("beforeunload", () => {
  isLeaving = true;
  setTimeout(() => (isLeaving = false), 3000); // the visitor may stay
});

// Correcting an answer: mark the right one in the document, type it, or say that there is none.

import { placeOf } from "./asking.js";
import { $, announce, button, element, settled } from "./dom.js";
import * as documents from "./documents.js";
import * as matches from "./matches.js";
import { state } from "./store.js";
import { entryAt } from "./text.js";
import * as viewer from "./viewer.js";
import * as words from "./words.js";

const HINT = "Mark it in the document, or type it as it is written there.";

let item = null; // the question that is corrected
let chosen = null; // {document, start, end, text}
let onChange = () => {};
let onBegin = () => {};

export const whenCorrected = (callback) => (onChange = callback);
export const whenBegun = (callback) => (onBegin = callback);

/** The part of a card that says how its answer was corrected. */
export function part(one) {
  const { correction } = one;
  if (!correction) return null;
  const undo = () => set(one, null, "The correction is undone.");
  const taking = button({ class: "small", "data-does": "undo", click: undo }, "Undo");
  return element("p", { class: "corrected" }, described(correction), " ", taking);
}

function described({ none, isConfirmed, text, place }) {
  if (isConfirmed) return "You said that this is right.";
  if (none) return "You said that there is no answer.";
  return `You corrected it: “${words.snippet(text, 160)}”${place ? `, ${place}` : ""}`;
}

function set(one, correction, sentence) {
  one.correction = correction;
  onChange(one);
  announce(sentence);
}

/** Keep an answer, or "not found", as right. */
export function confirm(one) {
  const { answer, start, end, document, place } = one.result;
  const correction = answer ? { document, start, end, text: answer, place } : { none: true };
  set(one, { ...correction, isConfirmed: true }, "Noted as right.");
}

export function begin(one) {
  if (state.active !== one.key) matches.activate(one);
  item = one;
  choose(null);
  $("correction").classList.add("begun");
  onBegin();
  $("correction").focus();
}

function choose(span) {
  chosen = span;
  $("correction").hidden = !item;
  $("correction-title").textContent = item ? `Right answer to “${words.snippet(item.question, 90)}”` : "";
  $("correction-quote").textContent = span ? `“${words.snippet(span.text, 200)}”` : HINT;
  $("is-answer").disabled = !span;
}

export function end() {
  item = null;
  $("correction").classList.remove("begun");
  $("typed").value = "";
  choose(null);
}

/** A selection in the document may be the right answer to the question in view. */
async function select() {
  const span = await viewer.selected().catch(() => null);
  const isBegun = $("correction").classList.contains("begun");
  if (!isBegun) {
    const active = matches.activeItem();
    item = span && active?.state === "answered" ? active : null;
  }
  if (item && (span || !isBegun)) choose(span);
  else if (!item) end();
}

/** Where the passages of the question begin in a document; 0 if none is in it. */
function nearAnswer(key) {
  const passages = item?.result.passages ?? []; // the correction may have been closed meanwhile
  const starts = passages.filter((one) => one.document === key).map(({ start }) => start);
  return starts.length ? Math.min(...starts) : 0;
}

/** Find a typed answer, in the document in view first, from the passages on. */
async function find() {
  const wanted = $("typed").value;
  const held = documents.askable().sort((a, b) => (b.key === state.shown) - (a.key === state.shown));
  for (const one of wanted.trim() ? held : []) {
    const { text } = await documents.content(one);
    const span = text.find(wanted, nearAnswer(one.key));
    if (!span) continue;
    choose({ document: one.key, ...span, text: text.slice(span.start, span.end) });
    return viewer.reveal({ document: one.key, ...span });
  }
  choose(null);
  if (wanted.trim()) $("correction-quote").textContent = "This text is not in the documents.";
}

async function accept() {
  const [one, span] = [item, chosen];
  if (!one || !span) return;
  const held = documents.byKey(span.document);
  const { outline } = await documents.content(held);
  const page = entryAt(outline.pages, span.start)?.[1] ?? null;
  const place = await placeOf(held, span.start, page);
  getSelection().removeAllRanges();
  end();
  set(one, { ...span, page, place }, `Noted: the answer is ${span.text}.`);
}

function followSelection() {
  let isPressed = false; // the visitor is still selecting
  const selected = settled(() => isPressed || $("correction").contains(document.activeElement) || select(), 200);
  const released = () => {
    isPressed = false;
    selected();
  };
  document.addEventListener("pointerdown", () => (isPressed = true));
  document.addEventListener("pointerup", released);
  document.addEventListener("pointercancel", released);
  document.addEventListener("selectionchange", selected);
}

export function start() {
  followSelection();
  $("typed").addEventListener("input", settled(find, 150));
  $("correction").addEventListener("submit", (event) => (event.preventDefault(), accept()));
  $("no-answer").addEventListener("click", () => {
    const one = item;
    end();
    set(one, { none: true }, "Noted: there is no answer.");
  });
  $("correction-close").addEventListener("click", end);
  $("correction").addEventListener("keydown", (event) => event.key === "Escape" && end());
}

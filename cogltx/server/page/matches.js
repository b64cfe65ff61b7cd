// The places of one question, one by one: the answer, what else was possible, and the passages that were found.

import { $, announce } from "./dom.js";
import * as documents from "./documents.js";
import { save, state } from "./store.js";
import * as viewer from "./viewer.js";
import * as words from "./words.js";

let matches = [];
let position = -1;
let origin = null; // has the focus again after Escape
let onReveal = () => {};

export const whenRevealed = (callback) => (onReveal = callback);
export const activeItem = () => state.items.find((item) => item.key === state.active);

/** All places of a question, the most important first. */
export function matchesOf(item) {
  const { result, correction } = item;
  const asPassage = (passage) => ({ ...passage, kind: "passage", label: "Passage" });
  if (!result) return numbered((item._evidence ?? []).map(asPassage));
  const isCorrected = correction && !correction.none;
  const answer = { ...result, text: result.answer, kind: isCorrected ? "candidate" : "answer", label: "Answer" };
  const nearest = (index) => (index || result.answer ? "Less probable" : "The nearest");
  return numbered([
    ...(isCorrected ? [{ ...correction, kind: "answer", label: "Your answer" }] : []),
    ...(result.answer ? [answer] : []),
    ...result.alternatives.map((other, index) => ({ ...other, kind: "candidate", label: nearest(index) })),
    ...result.passages.map(asPassage),
  ]);
}

/** Number the places that can be shown. */
function numbered(places) {
  const there = places.filter(({ start, document }) => start !== null && documents.byKey(document));
  return there.map((one, number) => ({ ...one, number }));
}

/** Mark the places of a question; those of the one before are gone. */
export function activate(item) {
  state.active = item?.key ?? "";
  matches = item ? matchesOf(item) : [];
  position = -1;
  viewer.mark(matches);
  show();
  save();
}

function show() {
  const match = matches[position];
  $("matches").hidden = !matches.length;
  const count = matches.length;
  $("match-count").textContent = match ? `${position + 1} of ${count}` : words.counted(count, "place");
  const label = match ? [match.label, placeOf(match)].filter(Boolean).join(" · ") : activeItem()?.question;
  $("match-label").textContent = label ?? "";
}

/** The place of a match, with the name of its document if there are several. */
function placeOf(match) {
  const name = state.documents.length > 1 && documents.byKey(match.document)?.name;
  return [name, match.place].filter(Boolean).join(", ");
}

/** Scroll to a match by its number. */
export async function go(number, { from = null, quietly = false } = {}) {
  if (!matches.length) return;
  position = (number + matches.length) % matches.length;
  show();
  const match = matches[position];
  if (!quietly) onReveal();
  const first = await viewer.reveal(match);
  if (quietly || match !== matches[position]) return; // the visitor may be further
  announce(`${position + 1} of ${matches.length}: ${[match.label, placeOf(match)].filter(Boolean).join(", ")}.`);
  if (!from || !first) return;
  origin = from;
  first.tabIndex = -1;
  first.focus({ preventScroll: true });
}

export const step = (by) => go(position < 0 && by < 0 ? -1 : position + by);

/** Scroll to a place of a question: the match that begins and ends there. */
export function goTo(item, place, from) {
  if (state.active !== item.key) activate(item);
  const isSame = (match) => match.document === place.document && match.start === place.start && match.end === place.end;
  const found = matches.filter(isSame);
  const number = (found.find((match) => match.kind !== "passage") ?? found[0])?.number;
  if (number !== undefined) return go(number, { from });
}

export function start() {
  $("previous").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  document.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && event.altKey && matches.length && event.target.tagName !== "SELECT") {
      event.preventDefault();
      step(by);
    }
  });
  $("viewer").addEventListener("keydown", (event) => {
    const by = { n: 1, p: -1 }[event.key];
    if (by && !event.ctrlKey && !event.metaKey && !event.altKey) step(by);
    if (event.key === "Escape" && origin?.isConnected) origin.focus();
  });
}

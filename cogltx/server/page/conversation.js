// The conversation: a card per question, the newest at the end and in view.

import * as asking from "./asking.js";
import { card, showProgress } from "./card.js";
import * as correcting from "./correcting.js";
import { $, notify } from "./dom.js";
import * as documents from "./documents.js";
import * as matches from "./matches.js";
import { follow, forget, remember, save, state } from "./store.js";

const does = { open, cancel: asking.cancel, ask, remove, show }; // what the buttons of a card do

const cardOf = (item) => $("conversation").querySelector(`[data-key="${item.key}"]`);
const made = (item) => card(item, does);

/** Show a card anew, and its marks if it is the active one. */
export function show(item) {
  const old = cardOf(item);
  const news = made(item);
  if (!old) $("conversation").append(news);
  else replace(old, news);
  if (item.key === state.active) matches.activate(item);
  document.body.classList.toggle("no-answers", !state.items.length);
}

/** Replace a card, and keep the focus in it. */
function replace(old, news) {
  const focused = old.contains(document.activeElement) && document.activeElement.dataset.does;
  old.replaceWith(news);
  if (!focused) return;
  const same = news.querySelector(`[data-does="${focused}"]`) ?? news.querySelector("button");
  same.focus({ preventScroll: true });
}

/** Ask a question: its card is in view, and what is marked in the document is of this question only. */
export function ask(item) {
  correcting.end();
  setActive(item);
  asking.ask(item);
  intoView(item);
}

function setActive(item) {
  const before = matches.activeItem();
  matches.activate(item);
  for (const one of [before, item]) {
    const old = one && cardOf(one);
    if (one === item) old?.setAttribute("aria-current", "true");
    else old?.removeAttribute("aria-current");
  }
}

/** Show the places of an earlier question, beginning with the best. */
function open(item) {
  setActive(item);
  matches.go(0);
}

function remove(item) {
  const index = state.items.indexOf(item);
  asking.cancel(item);
  state.items.splice(index, 1);
  forget(item);
  cardOf(item).remove();
  if (item.key === state.active) matches.activate(null);
  finish();
  const undo = () => (remember(item), state.items.splice(index, 0, item), showAll());
  if (item.state === "answered") offer("The question is removed.", undo);
  $("question").focus();
}

export function clear() {
  const all = state.items;
  for (const item of all) {
    asking.cancel(item);
    forget(item);
  }
  state.items = [];
  matches.activate(null);
  showAll();
  const undo = () => {
    all.forEach(remember);
    state.items = [...all.filter((item) => item.state !== "asking"), ...state.items];
    showAll();
  };
  offer("The conversation is cleared.", undo);
}

function offer(sentence, undo) {
  notify(sentence, { kind: "plain", action: { label: "Undo", run: undo }, about: "removed" });
}

function finish() {
  save();
  document.body.classList.toggle("no-answers", !state.items.length);
}

/** What cards say about documents depends on this. */
const names = () => state.documents.map(({ key, name }) => `${key} ${name}`).join();
let shownNames = "";

function showAll() {
  shownNames = names();
  $("conversation").replaceChildren(...state.items.map(made));
  finish();
}

const isAtEnd = () => $("answers").scrollHeight - $("answers").scrollTop - $("answers").clientHeight < 240;

/** Scroll a card into view: all of it if it fits, else from its beginning. */
function intoView(item) {
  const one = cardOf(item);
  one?.scrollIntoView({ block: one.clientHeight > $("answers").clientHeight ? "start" : "nearest" });
}

export function start() {
  asking.listeners.progressed = (item) => {
    const parts = cardOf(item)?.querySelector(".progress");
    if (parts) showProgress(parts, item);
  };
  asking.listeners.changed = (item) => {
    if (!state.items.includes(item)) return;
    const follows = item === state.items.at(-1) && isAtEnd();
    show(item);
    if (follows) intoView(item);
    if (item.state === "answered" && item.key === state.active) matches.go(0, { quietly: true });
  };
  correcting.whenCorrected((item) => {
    save();
    show(item);
    if (item.key === state.active) matches.go(0, { quietly: true });
  });
  follow(() => {
    shownNames = null;
    documents.update();
  });
  documents.onChange(() => names() !== shownNames && showAll());
  showAll();
  const active = matches.activeItem();
  if (active) matches.activate(active);
  $("answers").scrollTop = $("answers").scrollHeight;
}

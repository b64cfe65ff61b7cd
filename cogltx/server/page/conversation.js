// The conversation: a card per question, the newest at the end and in view.

import * as asking from "./asking.js";
import * as correcting from "./correcting.js";
import { $, button, dot, element, notify } from "./dom.js";
import * as documents from "./documents.js";
import * as matches from "./matches.js";
import { follow, forget, remember, save, state } from "./store.js";
import * as words from "./words.js";

const FIRST_PASSAGES = 3;
const unfolded = new Set(); // keys of items that show all passages

const cardOf = (item) => $("conversation").querySelector(`[data-key="${item.key}"]`);
const hasSeveral = (item) => item.documents.length > 1;

/** Show a card anew, and its marks if it is the active one. */
export function show(item) {
  const old = cardOf(item);
  const card = made(item);
  if (!old) $("conversation").append(card);
  else replace(old, card);
  if (item.key === state.active) matches.activate(item);
  document.body.classList.toggle("no-answers", !state.items.length);
}

function replace(old, card) {
  const focused = old.contains(document.activeElement) && document.activeElement.dataset.does;
  old.replaceWith(card);
  if (focused) (card.querySelector(`[data-does="${focused}"]`) ?? card.querySelector("button")).focus({ preventScroll: true });
}

function made(item) {
  const isActive = item.key === state.active;
  return element(
    "li",
    { class: `card ${item.state}`, "data-key": item.key, "aria-current": isActive ? "true" : null },
    element("h3", {}, button({ class: "question", "data-does": "question", click: () => open(item) }, item.question)),
    asked(item),
    ...({ asking: waitingParts, answered: answerParts }[item.state] ?? endedParts)(item),
  );
}

/** The documents of a question; those of most are clear. */
function asked(item) {
  const isClear = state.documents.length < 2 && !item.documents.some(({ key }) => !documents.byKey(key));
  if (isClear || !item.documents.length) return null;
  return element("p", { class: "asked" }, "in ", ...item.documents.slice(0, 3).flatMap(nameOf), item.documents.length > 3 && ` and ${item.documents.length - 3} more`);
}

const nameOf = ({ name, color }, index = 0) => [index ? ", " : "", dot(color), element("span", {}, name)];

function waitingParts(item) {
  const bar = element("progress", { max: 1, "aria-label": `Progress of “${words.snippet(item.question, 60)}”` });
  const parts = element(
    "div",
    { class: "progress" },
    element("p", {}, element("span", { class: "stage" }), element("span", { class: "left" })),
    bar,
    button({ "data-does": "cancel", click: () => asking.cancel(item) }, "Cancel"),
  );
  showProgress(parts, item);
  if (!item._evidence?.length) return [parts];
  const title = item._isPreliminary ? "First passages" : "Passages that were found";
  const quiet = item._isPreliminary ? "preliminary: the search goes on" : "the answer follows";
  return [parts, element("h4", {}, title, element("small", {}, quiet)), passages(item, item._evidence)];
}

function showProgress(parts, { _progress: progress }) {
  parts.querySelector(".stage").textContent = words.stage(progress?.stage ?? "waiting");
  parts.querySelector(".left").textContent = words.timeLeft(progress?.seconds_left);
  const bar = parts.querySelector("progress");
  if (progress?.share) bar.value = progress.share;
  else bar.removeAttribute("value");
}

function answerParts(item) {
  const { result } = item;
  return [
    result.answer ? found(item) : notFound(item),
    others(item),
    correcting.part(item),
    element("h4", {}, result.passages.length ? "Passages that were found" : "No passages were found"),
    passages(item, result.passages),
    element(
      "p",
      { class: "actions" },
      !item.correction && button({ class: "small", "data-does": "right", click: () => correcting.confirm(item) }, "That is right"),
      button({ class: "small", "data-does": "correct", click: () => correcting.begin(item) }, "Correct it"),
      button({ class: "small", "data-does": "remove", "aria-label": `Remove the question “${item.question}”`, click: () => remove(item) }, "Remove"),
    ),
  ];
}

function found(item) {
  const { result } = item;
  const text = result.start === null ? result.answer : link(item, result, "verdict", result.answer);
  return element(
    "div",
    { class: "answer" },
    element("p", { class: "verdict" }, text),
    element("p", { class: "source" }, badge(result.confidence), source(item, result)),
  );
}

function notFound(item) {
  const [nearest] = item.result.alternatives;
  return element(
    "div",
    { class: "answer none" },
    element("p", { class: "verdict" }, words.notFound(item.documents.map(({ name }) => name))),
    item.result.confidence > 0 && element("p", { class: "source" }, badge(item.result.confidence)),
    nearest && element("p", { class: "nearest" }, "The nearest is ", ...candidate(item, nearest), "."),
  );
}

/** Answers that are less probable. Under "not found" the first of them is the nearest. */
function others(item) {
  const some = item.result.alternatives.slice(item.result.answer ? 0 : 1);
  if (!some.length) return null;
  const list = some.map((other) => element("li", {}, ...candidate(item, other)));
  return element("details", { class: "others" }, element("summary", {}, `Also possible: ${words.counted(some.length, "answer")}`), element("ul", {}, ...list));
}

function candidate(item, other) {
  const name = hasSeveral(item) && documents.byKey(other.document)?.name;
  const place = [name, other.place].filter(Boolean).join(", ");
  const text = `“${words.snippet(other.text, 120)}”`;
  return [link(item, other, "", text), ` (${words.sureness(other.confidence)})${place ? `, ${place}` : ""}`];
}

const badge = (confidence) => element("span", { class: `badge ${words.level(confidence).replace(" ", "-")}` }, words.sureness(confidence));

/** A button that scrolls to a place, or plain text if its document is gone. */
function link(item, place, kind, ...content) {
  if (place.start === null || !documents.byKey(place.document)) return element("span", { class: kind }, ...content);
  const does = `${place.document}-${place.start}-${place.end}-${kind}`;
  const go = (event) => matches.goTo(item, place, event.currentTarget);
  return button({ class: `link ${kind}`, "data-does": does, click: go }, ...content);
}

function source(item, place) {
  if (place.start === null) return null;
  const held = item.documents.find(({ key }) => key === place.document);
  const name = held && (hasSeveral(item) || state.documents.length > 1) ? [dot(held.color), held.name, ", "] : [];
  return link(item, place, "place", ...name, place.place || "in the text");
}

function passages(item, list) {
  const shown = unfolded.has(item.key) ? list : list.slice(0, FIRST_PASSAGES);
  const rows = shown.map((passage) =>
    element("li", {}, link(item, passage, "passage", element("small", {}, ...sourceText(item, passage)), element("span", {}, ...emphasized(passage, item.result)))),
  );
  const more = list.length - shown.length;
  const unfold = () => (unfolded.add(item.key), show(item));
  return element(
    "div",
    { class: "passages" },
    element("ol", {}, ...rows),
    more > 0 && button({ class: "small", "data-does": "more", click: unfold }, `Show ${words.counted(more, "more passage")}`),
  );
}

function sourceText(item, passage) {
  const held = item.documents.find(({ key }) => key === passage.document);
  if (!held || item.documents.length < 2) return [passage.place];
  return [dot(held.color), held.name, passage.place && `, ${passage.place}`];
}

/** The beginning of a passage, or its part around the answer, with the answer in it emphasized. */
function emphasized(passage, result) {
  const answer = result?.answer;
  const at = answer && passage.document === result.document ? passage.text.indexOf(answer) : -1;
  const holds = at >= 0 && passage.start <= result.start && result.end <= passage.end;
  if (!holds) return [words.snippet(passage.text)];
  const begin = at > 180 ? passage.text.lastIndexOf(" ", at - 120) : 0;
  const before = (begin > 0 ? "… " : "") + passage.text.slice(Math.max(0, begin), at).replace(/\s+/g, " ").trimStart();
  const after = passage.text.slice(at + answer.length).replace(/\s+/g, " ");
  return [before, element("strong", {}, answer), words.snippet(`.${after}`, Math.max(60, 280 - before.length)).slice(1)];
}

function endedParts(item) {
  const said = item.state === "cancelled" ? "Cancelled." : item.message;
  return [
    element("p", { class: "ended" }, said),
    element(
      "p",
      { class: "actions" },
      button({ "data-does": "again", click: () => ask(item) }, "Ask again"),
      button({ class: "small", "data-does": "remove", "aria-label": `Remove the question “${item.question}”`, click: () => remove(item) }, "Remove"),
    ),
  ];
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
    const card = one && cardOf(one);
    if (card && one === item) card.setAttribute("aria-current", "true");
    else card?.removeAttribute("aria-current");
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
  if (item.state === "answered") notify("The question is removed.", { kind: "plain", action: { label: "Undo", run: undo }, about: "removed" });
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
  notify("The conversation is cleared.", { kind: "plain", action: { label: "Undo", run: undo }, about: "removed" });
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
  const card = cardOf(item);
  if (card) card.scrollIntoView({ block: card.clientHeight > $("answers").clientHeight ? "start" : "nearest" });
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

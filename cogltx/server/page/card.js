// The card of a question: its progress, its answer with the sources, or why there is none.

import * as correcting from "./correcting.js";
import { button, dot, element } from "./dom.js";
import * as documents from "./documents.js";
import * as matches from "./matches.js";
import { state } from "./store.js";
import * as words from "./words.js";

const FIRST_PASSAGES = 3;
const EXCERPT = 280; // characters of a passage
const unfolded = new Set(); // keys of items that show all passages

const hasSeveral = (item) => item.documents.length > 1;

/** Make the card of an item. `does` has functions of an item: open, cancel, ask, remove and show. */
export function card(item, does) {
  const question = { class: "question", "data-does": "question", click: () => does.open(item) };
  const parts = { asking: waitingParts, answered: answerParts }[item.state] ?? endedParts;
  return element(
    "li",
    { class: `card ${item.state}`, "data-key": item.key, "aria-current": item.key === state.active ? "true" : null },
    element("h3", {}, button(question, item.question)),
    asked(item),
    ...parts(item, does),
  );
}

/** The documents of a question; with one document they are clear. */
function asked(item) {
  const isClear = state.documents.length < 2 && !item.documents.some(({ key }) => !documents.byKey(key));
  if (isClear || !item.documents.length) return null;
  const more = item.documents.length - 3;
  const names = item.documents.slice(0, 3).flatMap(({ name, color }, index) => [index ? ", " : "", dot(color), name]);
  return element("p", { class: "asked" }, "in ", ...names, more > 0 && ` and ${more} more`);
}

function waitingParts(item, does) {
  const parts = element(
    "div",
    { class: "progress" },
    element("p", {}, element("span", { class: "stage" }), element("span", { class: "left" })),
    element("progress", { max: 1, "aria-label": `Progress of “${words.snippet(item.question, 60)}”` }),
    button({ "data-does": "cancel", click: () => does.cancel(item) }, "Cancel"),
  );
  showProgress(parts, item);
  if (!item._evidence?.length) return [parts];
  const [title, quiet] = item._isPreliminary
    ? ["First passages", "preliminary: the search goes on"]
    : ["Passages that were found", "the answer follows"];
  return [parts, element("h4", {}, title, element("small", {}, quiet)), passages(item, item._evidence, does)];
}

/** Update the progress in a card, without touching the rest of it. */
export function showProgress(parts, { _progress: progress }) {
  parts.querySelector(".stage").textContent = words.stage(progress?.stage ?? "waiting");
  parts.querySelector(".left").textContent = words.timeLeft(progress?.seconds_left);
  const bar = parts.querySelector("progress");
  if (progress?.share) bar.value = progress.share;
  else bar.removeAttribute("value");
}

function answerParts(item, does) {
  const { result } = item;
  const confirm = { class: "small", "data-does": "right", click: () => correcting.confirm(item) };
  const correct = { class: "small", "data-does": "correct", click: () => correcting.begin(item) };
  return [
    result.answer ? found(item) : notFound(item),
    others(item),
    correcting.part(item),
    element("h4", {}, result.passages.length ? "Passages that were found" : "No passages were found"),
    passages(item, result.passages, does),
    element(
      "p",
      { class: "actions" },
      !item.correction && button(confirm, "That is right"),
      button(correct, "Correct it"),
      removal(item, does),
    ),
  ];
}

function removal(item, does) {
  const label = `Remove the question “${words.snippet(item.question, 60)}”`;
  const attributes = { class: "small", "data-does": "remove", "aria-label": label };
  return button({ ...attributes, click: () => does.remove(item) }, "Remove");
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
  const { confidence, alternatives } = item.result;
  const [nearest] = alternatives;
  return element(
    "div",
    { class: "answer none" },
    element("p", { class: "verdict" }, words.notFound(item.documents.map(({ name }) => name), confidence)),
    confidence > 0 && element("p", { class: "source" }, badge(confidence)),
    nearest && element("p", { class: "nearest" }, "The nearest is ", ...candidate(item, nearest), "."),
  );
}

/** The less probable answers. Under "not found" the first of them is the nearest. */
function others(item) {
  const some = item.result.alternatives.slice(item.result.answer ? 0 : 1);
  if (!some.length) return null;
  const summary = element("summary", {}, `Less probable: ${words.counted(some.length, "answer")}`);
  const list = some.map((other) => element("li", {}, ...candidate(item, other)));
  return element("details", { class: "others" }, summary, element("ul", {}, ...list));
}

function candidate(item, other) {
  const name = hasSeveral(item) && documents.byKey(other.document)?.name;
  const place = [name, other.place].filter(Boolean).join(", ");
  const text = link(item, other, "", `“${words.snippet(other.text, 120)}”`);
  return [text, ` (${words.sureness(other.confidence)})${place ? `, ${place}` : ""}`];
}

function badge(confidence) {
  return element("span", { class: `badge ${words.level(confidence).replace(" ", "-")}` }, words.sureness(confidence));
}

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

function passages(item, list, does) {
  const shown = unfolded.has(item.key) ? list : list.slice(0, FIRST_PASSAGES);
  const rows = shown.map((passage) => {
    const place = element("small", {}, ...sourceText(item, passage));
    const text = element("span", {}, ...excerpt(passage, item.result));
    return element("li", {}, link(item, passage, "passage", place, text));
  });
  const more = list.length - shown.length;
  const unfold = () => (unfolded.add(item.key), does.show(item));
  const label = `Show ${words.counted(more, "more passage")}`;
  return element(
    "div",
    { class: "passages" },
    element("ol", {}, ...rows),
    more > 0 && button({ class: "small", "data-does": "more", click: unfold }, label),
  );
}

function sourceText(item, passage) {
  const held = item.documents.find(({ key }) => key === passage.document);
  if (!held || item.documents.length < 2) return [passage.place];
  return [dot(held.color), held.name, passage.place && `, ${passage.place}`];
}

/** The beginning of a passage, or its part around the answer, which is emphasized. */
function excerpt(passage, result) {
  const { text } = passage;
  const skipped = passage.skipped ?? 0; // its heading, which is in the place
  const answer = result?.answer;
  const isSame = passage.document === result?.document;
  const isInside = isSame && passage.start <= result.start && result.end <= passage.end;
  const at = answer && isInside ? text.indexOf(answer, skipped) : -1;
  if (at < 0) return [words.snippet(text.slice(skipped), EXCERPT)];
  const cut = at - skipped > 180 ? text.lastIndexOf(" ", at - 120) : -1;
  const before = text.slice(Math.max(skipped, cut), at).replace(/\s+/g, " ").trimStart();
  const after = text.slice(at + answer.length).replace(/\s+/g, " ");
  const rest = words.snippet(`.${after}`, Math.max(60, EXCERPT - before.length)).slice(1); // "." keeps a space
  return [`${cut > skipped ? "… " : ""}${before}`, element("strong", {}, answer), rest];
}

function endedParts(item, does) {
  const said = item.state === "cancelled" ? "Cancelled." : item.message;
  const again = button({ "data-does": "again", click: () => does.ask(item) }, "Ask again");
  return [element("p", { class: "ended" }, said), element("p", { class: "actions" }, again, removal(item, does))];
}

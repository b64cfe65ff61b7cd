// The pane with the document: shows one, marks places in it, scrolls to them, and reads what is selected.

import { $, button, element, settled } from "./dom.js";
import * as documents from "./documents.js";
import { state } from "./store.js";
import { PagesView, TextView } from "./views.js";
import * as words from "./words.js";

const ZOOMS = [0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3];
let shown = null; // {key, id, view, ready}
let matches = [];
let wanted = null; // the match that was asked for last
let zoom = 1;
let place = [0, 0]; // what is at the upper third of the pane, as shares of the height and width of the document

const marksOf = (key) => matches.filter((match) => match.document === key && match.start !== null);

/** Show the chosen document, if it is not shown yet. Resolves when it is there. */
export function show() {
  const held = documents.byKey(state.shown) ?? state.documents.find((one) => one._uploading);
  const [key, id] = [held?.key ?? "", held?.id ?? ""];
  if (shown?.key === key && shown.id === id && !shown.failed) return shown.ready;
  shown?.view?.close();
  const mine = { key, id, view: null, failed: false };
  shown = mine;
  mine.ready = open(held, mine);
  return mine.ready;
}

async function open(held, mine) {
  $("viewer").scrollTop = 0;
  place = [0, 0];
  $("notes").hidden = !held?.notes?.length;
  $("zoom").hidden = true;
  if (!held) return $("viewer").replaceChildren();
  $("viewer").setAttribute("aria-label", held.name);
  if (!held.id) return empty(`${held.name} is being read.`, "It appears here as soon as it is ready.");
  if (held.notes?.length) showNotes(held.notes);
  empty(`Opening ${held.name} …`);
  try {
    const content = await documents.content(held);
    if (shown !== mine) return;
    mine.view = content.sizes.length ? new PagesView(content, $("viewer")) : new TextView(content);
    $("viewer").replaceChildren(mine.view.element);
    $("zoom").hidden = false;
    mine.view.mark(marksOf(held.key));
  } catch (error) {
    if (shown !== mine) return;
    mine.failed = true;
    if (error.status === 404) missing(held);
    else empty(`${held.name} cannot be shown.`, error.message, button({ click: show }, "Try again"));
  }
}

function empty(title, sentence = "", action = null) {
  const heading = element("p", { class: "title" }, title);
  $("viewer").replaceChildren(
    element("div", { class: "empty" }, heading, sentence && element("p", {}, sentence), action),
  );
}

function missing(held) {
  const add = button({ class: "primary", click: () => $("file").click() }, "Add the file again");
  empty(`${held.name} is no longer on the server.`, words.gone([held.name], documents.info.store), add);
}

function showNotes(notes) {
  const count = words.counted(notes.length, "note");
  $("notes").firstElementChild.textContent = `Not everything in this file could be read (${count})`;
  $("notes").lastElementChild.replaceChildren(...notes.map((note) => element("li", {}, note)));
}

/** Mark places: {kind: "answer", "candidate" or "passage", document, start, end, number}. */
export function mark(places) {
  matches = places;
  shown?.view?.mark(marksOf(shown.key));
  showMap();
}

/** Where the marks lie in the whole document, as a strip beside it. */
function showMap() {
  const length = documents.byKey(shown?.key)?.characters;
  const ticks = marksOf(shown?.key).map((match) => {
    const tick = element("i", { class: match.kind });
    tick.style.top = `calc((100% - 6px) * ${match.start / length})`;
    return tick;
  });
  $("map").replaceChildren(...(length ? ticks : []));
}

/** Scroll to a match, in its document. Returns its first element, or null if it cannot be shown. */
export async function reveal(match) {
  const held = documents.byKey(match.document);
  if (!held) return null;
  wanted = match;
  if (state.shown !== held.key) documents.choose(held);
  await show();
  const elements = shown.key === held.key && shown.view ? await shown.view.find(match) : [];
  if (wanted !== match) return null;
  for (const old of $("viewer").querySelectorAll(".current")) old.classList.remove("current");
  for (const one of elements) one.classList.add("current");
  scrollTo(elements);
  showMap();
  return elements[0] ?? null;
}

/** Show a place in the upper third of the pane. */
function scrollTo([first]) {
  if (!first) return;
  const move = () => {
    const [inner, outer] = [first.getBoundingClientRect(), $("viewer").getBoundingClientRect()];
    const [top, left] = [inner.top - outer.top - outer.height / 3, inner.left - outer.left - outer.width / 3];
    $("viewer").scrollBy({ top, left });
  };
  move();
  requestAnimationFrame(move); // once more: what came near was laid out for the first time
}

/** What is selected in the document: {document, start, end, text} in code points; null if nothing is. */
export async function selected() {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed || !$("viewer").contains(selection.anchorNode)) return null;
  const range = selection.getRangeAt(0);
  const blocks = [...$("viewer").querySelectorAll("[data-start]")].filter((block) => range.intersectsNode(block));
  if (!blocks.length) return null;
  const held = documents.byKey(shown.key);
  const { text } = await documents.content(held);
  const at = (block, node, offset, side) =>
    block.contains(node)
      ? text.unit(Number(block.dataset.start)) + lengthBefore(block, node, offset)
      : text.unit(Number(block.dataset[side]));
  const start = at(blocks[0], range.startContainer, range.startOffset, "start");
  const end = at(blocks.at(-1), range.endContainer, range.endOffset, "end");
  const slice = text.text.slice(start, end);
  const bare = slice.trim();
  if (!bare) return null;
  const first = start + slice.indexOf(bare);
  return { document: held.key, start: text.point(first), end: text.point(first + bare.length), text: bare };
}

function lengthBefore(block, node, offset) {
  const range = document.createRange();
  range.setStart(block, 0);
  range.setEnd(node, offset);
  return range.toString().length;
}

function notePlace() {
  const { scrollTop, scrollLeft, clientHeight, clientWidth, scrollHeight, scrollWidth } = $("viewer");
  place = [(scrollTop + clientHeight / 3) / scrollHeight, (scrollLeft + clientWidth / 2) / scrollWidth];
}

/** Scroll to the place of before, after the document or the pane has another size. */
function keepPlace() {
  const { clientHeight, clientWidth, scrollHeight, scrollWidth } = $("viewer");
  $("viewer").scrollTo(place[1] * scrollWidth - clientWidth / 2, place[0] * scrollHeight - clientHeight / 3);
}

function setZoom(step) {
  zoom = ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, ZOOMS.indexOf(zoom) + step))];
  $("viewer").style.setProperty("--zoom", zoom);
  keepPlace();
  $("zoom-value").textContent = `${Math.round(100 * zoom)} %`;
  shown?.view?.resized?.();
}

export function start() {
  $("zoom-in").addEventListener("click", () => setZoom(1));
  $("zoom-out").addEventListener("click", () => setZoom(-1));
  $("viewer").addEventListener("scroll", notePlace, { passive: true });
  new ResizeObserver(keepPlace).observe($("viewer"));
  new ResizeObserver(settled(() => shown?.view?.resized?.(), 300)).observe($("viewer"));
  documents.onChange(() => (show(), showMap()));
  show();
}

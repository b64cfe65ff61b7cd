// The two ways to show a document: a PDF as pictures of its pages under selectable lines, everything else as text.
// Each has `element`, `mark(marks)` and `async find(match)`, which gives the elements of a marked place.

import * as api from "./api.js";
import { element } from "./dom.js";
import { cut, entryAt, paragraphs } from "./text.js";

const SECTION = 40; // paragraphs that the browser lays out together, and only if they are near
const PICTURES_AT_ONCE = 3;
const [SMALLEST, LARGEST] = [0.2, 3]; // scales of a page's picture
const FONT_OF_LINE = 0.78; // of the height of a printed line

/** Fill an element with a slice of the text; marks become `mark` elements that name their matches. */
function fill(target, { start, end }, text, marks) {
  const inside = marks.filter((mark) => mark.start < end && mark.end > start);
  const signature = inside.map((mark) => `${mark.kind} ${mark.number}`).join();
  if (target.dataset.marks === signature) return;
  target.dataset.marks = signature;
  target.replaceChildren(
    ...cut(start, end, inside).map((piece) => {
      const slice = text.slice(piece.start, piece.end);
      if (!piece.marks.length) return slice;
      const kinds = [...new Set(piece.marks.map((mark) => mark.kind))].join(" ");
      const numbers = piece.marks.map((mark) => mark.number).join(" ");
      return element("mark", { class: kinds, "data-match": numbers }, slice);
    }),
  );
}

const marked = (root, match) => [...root.querySelectorAll(`[data-match~="${match.number}"]`)];

export class TextView {
  #text;
  #blocks = [];

  constructor(content) {
    this.#text = content.text;
    this.element = element("div", { class: "text" });
    for (const paragraph of paragraphs(content)) this.#add(paragraph);
    this.mark([]);
  }

  #add({ start, end, isHeading, label, page }) {
    if (this.#blocks.length % SECTION === 0) this.element.append(element("div", { class: "section" }));
    const section = this.element.lastElementChild;
    if (label) section.append(element("h3", { class: "label" }, label));
    const block = element(isHeading ? "h3" : "p", { "data-start": start, "data-end": end, "data-page": page || null });
    this.#blocks.push({ block, start, end });
    section.append(block);
  }

  mark(marks) {
    for (const { block, start, end } of this.#blocks) fill(block, { start, end }, this.#text, marks);
  }

  async find(match) {
    const around = this.#blocks.find(({ end }) => end > match.start)?.block;
    const found = marked(this.element, match);
    return found.length ? found : around ? [around] : [];
  }

  close() {}
}

export class PagesView {
  #content;
  #marks = [];
  #pages = [];
  #observer;
  #queue = [];
  #running = 0;

  constructor(content, root) {
    this.#content = content;
    this.element = element("div", { class: "pages" });
    this.#pages = content.sizes.map((size) => this.#page(size));
    this.#observer = new IntersectionObserver((entries) => this.#seen(entries), { root, rootMargin: "100% 0%" });
    for (const page of this.#pages) this.#observer.observe(page.sheet);
  }

  #page({ number, width, height }) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    const lines = element("div", { class: "lines" });
    const sheet = element("div", { class: "sheet", role: "group", "aria-label": `page ${number}` }, canvas, lines);
    sheet.style.aspectRatio = `${width} / ${height}`;
    this.element.append(sheet);
    return { number, width, height, sheet, canvas, lines, printed: [], loading: null, leaving: null, drawn: 0 };
  }

  #seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const page = this.#pages.find(({ sheet }) => sheet === target);
      page.isNear = isIntersecting;
      if (isIntersecting) this.#want(page);
      else this.#forget(page);
    }
  }

  #want(page) {
    this.#lines(page).catch(() => {});
    if (!this.#queue.includes(page)) this.#queue.push(page);
    this.#next();
  }

  /** Free the memory of a picture that is far away. */
  #forget(page) {
    page.leaving?.abort();
    this.#queue = this.#queue.filter((other) => other !== page);
    page.canvas.width = page.canvas.height = page.drawn = 0;
    page.sheet.classList.remove("drawn");
  }

  async #next() {
    if (this.#running >= PICTURES_AT_ONCE || !this.#queue.length) return;
    const page = this.#queue.shift();
    this.#running += 1;
    try {
      await this.#draw(page);
    } catch (error) {
      if (error.name !== "AbortError") page.sheet.classList.add("failed");
    }
    this.#running -= 1;
    this.#next();
  }

  async #draw(page) {
    const wanted = (page.sheet.clientWidth * devicePixelRatio) / page.width;
    const scale = Math.min(LARGEST, Math.max(SMALLEST, Math.ceil(4 * wanted) / 4));
    if (scale <= page.drawn) return;
    page.leaving = new AbortController();
    const options = { signal: page.leaving.signal };
    const response = await api.request(`${this.#content.path}/pages/${page.number}?scale=${scale}`, options);
    const picture = await createImageBitmap(await response.blob());
    if (!page.isNear) return;
    Object.assign(page.canvas, { width: picture.width, height: picture.height });
    page.canvas.getContext("2d").drawImage(picture, 0, 0);
    picture.close();
    page.drawn = scale;
    page.sheet.classList.add("drawn");
  }

  /** Draw the pictures in view again, as sharp as the width needs. */
  resized() {
    for (const page of this.#pages) if (page.isNear) this.#want(page);
  }

  #lines(page) {
    page.loading ??= api.json(`${this.#content.path}/pages/${page.number}/lines`).then(
      (lines) => this.#print(page, lines),
      (error) => ((page.loading = null), Promise.reject(error)),
    );
    return page.loading;
  }

  /** Lay the lines over the picture: as wide and high as they are printed, whatever the size of the page. */
  #print(page, lines) {
    const ruler = document.createElement("canvas").getContext("2d");
    ruler.font = "100px sans-serif";
    const sizes = lines.map(({ start, end, box: [left, top, right, bottom] }) => {
      const text = this.#content.text.slice(start, end);
      const font = FONT_OF_LINE * (bottom - top);
      const natural = (ruler.measureText(text).width / 100) * font;
      const line = element("p", { "data-start": start, "data-end": end });
      Object.assign(line.style, {
        left: `${(100 * left) / page.width}%`,
        top: `${(100 * top) / page.height}%`,
        height: `${(100 * (bottom - top)) / page.height}%`,
        fontSize: `${(100 * font) / page.width}cqw`,
        lineHeight: `${(100 * (bottom - top)) / page.width}cqw`,
        transform: `scaleX(${natural ? (right - left) / natural : 1})`,
      });
      return { line, start, end };
    });
    page.printed = sizes;
    page.lines.replaceChildren(...sizes.map(({ line }) => line));
    this.#markPage(page);
  }

  #markPage(page) {
    for (const { line, start, end } of page.printed) fill(line, { start, end }, this.#content.text, this.#marks);
  }

  mark(marks) {
    this.#marks = marks;
    for (const page of this.#pages) this.#markPage(page);
  }

  async find(match) {
    const number = entryAt(this.#content.outline.pages, match.start)?.[1] ?? 1;
    const index = Math.max(0, this.#pages.findIndex((page) => page.number === number));
    for (const page of this.#pages.slice(index, index + 2)) { // a paragraph may go on on the next page
      await this.#lines(page).catch(() => {});
      const found = marked(page.lines, match);
      if (found.length) return found;
    }
    return this.#pages.slice(index, index + 1).map(({ sheet }) => sheet);
  }

  close() {
    this.#observer.disconnect();
    for (const page of this.#pages) this.#forget(page);
  }
}

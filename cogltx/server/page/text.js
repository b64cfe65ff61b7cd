// Texts and their offsets. The server counts Unicode code points, JavaScript counts UTF-16 units.

/** Number of leading items for which `holds` is true, of items that are sorted by it. */
function leading(n, holds) {
  let [low, high] = [0, n];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Text {
  #wide; // units at which a character of two units begins

  constructor(text) {
    this.text = text;
    this.#wide = Array.from(text.matchAll(/[\u{10000}-\u{10ffff}]/gu), (match) => match.index);
  }

  /** UTF-16 offset of a code point offset. */
  unit(point) {
    return point + leading(this.#wide.length, (index) => this.#wide[index] - index < point);
  }

  /** Code point offset of a UTF-16 offset. */
  point(unit) {
    return unit - leading(this.#wide.length, (index) => this.#wide[index] < unit);
  }

  slice(start, end) {
    return this.text.slice(this.unit(start), this.unit(end));
  }

  line(start) {
    const stop = this.unit(start);
    let count = 1;
    for (let at = this.text.indexOf("\n"); at >= 0 && at < stop; at = this.text.indexOf("\n", at + 1)) count += 1;
    return count;
  }

  /** Span, in code points, of the first place of a string from an offset on, else of all; in any case; or null. */
  find(wanted, from = 0) {
    const start = this.unit(from);
    const later = start ? new Text(this.text.slice(start)).find(wanted) : null;
    if (later) return { start: later.start + from, end: later.end + from };
    const needle = wanted.trim();
    const pattern = needle.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+");
    const found = needle && (new RegExp(pattern, "u").exec(this.text) ?? new RegExp(pattern, "iu").exec(this.text));
    return found ? { start: this.point(found.index), end: this.point(found.index + found[0].length) } : null;
  }
}

/** The last entry of [[start, ...], ...] that begins at or before an offset. */
export function entryAt(entries, start) {
  return entries[leading(entries.length, (index) => entries[index][0] <= start) - 1];
}

export function headingAt(segments, start) {
  const segment = entryAt(segments, start);
  return segment && start < segment[1] ? segment[2] : "";
}

/** Cut a span where marks begin and end: [{start, end, marks}]. */
export function cut(start, end, marks) {
  const inside = marks.filter((mark) => mark.start < end && mark.end > start);
  const cuts = new Set([start, end]);
  for (const mark of inside) cuts.add(Math.max(start, mark.start)).add(Math.min(end, mark.end));
  const sorted = [...cuts].sort((a, b) => a - b);
  return sorted.slice(0, -1).map((from, index) => ({
    start: from,
    end: sorted[index + 1],
    marks: inside.filter((mark) => mark.start <= from && from < mark.end),
  }));
}

/** The paragraphs of a document: {start, end, isHeading, label, page} in code points. */
export function* paragraphs({ text, outline }) {
  const pages = [...outline.pages];
  let label = "";
  for (const [from, to, heading] of withGaps(outline.segments, text.point(text.text.length))) {
    let isFirst = true;
    const title = heading.split(" > ").at(-1).trim();
    for (const [start, end] of lines(text, from, to)) {
      const isHeading = isFirst && title !== "" && text.slice(start, end).trim() === title;
      const paragraph = { start, end, isHeading, label: "", page: "" };
      if (isFirst && heading && !isHeading && heading !== label) paragraph.label = heading;
      while (pages.length && pages[0][0] < end) paragraph.page = pageLabel(pages.shift()[1]);
      if (isFirst) label = heading;
      isFirst = false;
      yield paragraph;
    }
  }
}

const pageLabel = (page) => (typeof page === "number" ? `page ${page}` : page);

function* withGaps(segments, length) {
  let last = 0;
  for (const [start, end, heading] of segments) {
    if (last < start) yield [last, start, ""];
    yield [start, end, heading];
    last = end;
  }
  if (last < length) yield [last, length, ""];
}

const LONGEST = 6000; // units of a paragraph; a longer one is cut, so that marking it is fast

function* lines(text, from, to) {
  const [first, last] = [text.unit(from), text.unit(to)];
  for (const match of text.text.slice(first, last).matchAll(/[^\n]*\S[^\n]*(\n(?=[^\n]*\S)[^\n]*)*/g)) {
    const end = first + match.index + match[0].length;
    for (let start = first + match.index; start < end; ) {
      const stop = end - start > LONGEST ? pause(text.text, start + LONGEST) : end;
      yield [text.point(start), text.point(stop)];
      start = stop;
    }
  }
}

/** A place after white space at or before an offset, or the offset itself, but never between two halves. */
function pause(text, at) {
  for (let place = at; place > at - 200; place -= 1) if (/\s/.test(text[place - 1])) return place;
  return /[\udc00-\udfff]/.test(text[at]) ? at - 1 : at;
}

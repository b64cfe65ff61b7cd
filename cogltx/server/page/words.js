// The words that people read; those of reports and the command line are the same.

const percent = (share) => `${(100 * share).toFixed(0)} %`;

export const level = (confidence) => (confidence >= 0.8 ? "sure" : confidence >= 0.5 ? "probably" : "not sure");
export const sureness = (confidence) => `${level(confidence)}, ${percent(confidence)}`;
export const prepared = (share) => `prepared ${percent(Math.floor(100 * share) / 100)}`;
export const uploaded = (share) => (share < 1 ? `uploading, ${percent(share)}` : "being read …");

export const pageName = (page) => (typeof page === "number" ? `page ${page}` : page);

/** "page 12, Installation"; "line 120" in a text without pages and headings. */
export function place({ page, heading, line }) {
  const known = [page && pageName(page), heading && snippet(heading, 60)].filter(Boolean);
  return known.length ? known.join(", ") : line ? `line ${line.toLocaleString("en")}` : "";
}

const STAGES = {
  upload: "Waiting until the documents are read",
  waiting: "Waiting for its turn",
  reading: "Reading",
  searching: "Searching for passages",
  answering: "Looking for the answer in the passages",
};
export const stage = (name) => STAGES[name] ?? "Working";

export function timeLeft(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return seconds < 90 ? `about ${Math.max(1, Math.round(seconds))} s left` : `about ${Math.round(seconds / 60)} min left`;
}

/** A message of the server as a sentence. */
export const sentence = (message) => message && message[0].toUpperCase() + message.slice(1) + (/[.!?)…]$/.test(message) ? "" : ".");

const count = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
export const counted = count;

export const size = (held) => (held.pages ? count(held.pages, "page") : count(held.characters, "character"));

export function snippet(text, length = 280) {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= length) return line;
  const cut = line.slice(0, length);
  const space = cut.lastIndexOf(" ");
  return `${space > length / 2 ? cut.slice(0, space) : cut} …`;
}

/** "a.pdf", "a.pdf and b.md", "a.pdf, b.md and c.txt", "5 documents". */
export function listed(names) {
  if (names.length > 3) return `${names.length} documents`;
  return names.length < 2 ? (names[0] ?? "the text") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

export const notFound = (names) => `Not found in ${listed(names)}`;

/** The sentence that says what was found, for screen readers and for the exported conversation. */
export function verdict(result, names) {
  const said = result.confidence > 0 ? ` (${sureness(result.confidence)})` : "";
  if (result.answer) return `${result.answer}${said}${result.place ? `, ${result.place}` : ""}`;
  const [nearest] = result.alternatives;
  const near = nearest ? ` The nearest is “${nearest.text}” (${sureness(nearest.confidence)})${nearest.place ? `, ${nearest.place}` : ""}.` : "";
  return `${notFound(names)}${said}.${near}`;
}

export const keeping = (store) =>
  store
    ? "This server keeps documents, also when it is restarted."
    : "This server forgets documents when it is restarted; your answers stay in this browser.";

export const gone = (names, store) =>
  `The server no longer has ${listed(names)}. ` +
  (store
    ? "Documents that nobody asked about for long make room for new ones. "
    : "It was restarted, and it does not keep documents. ") +
  `Add ${names.length > 1 ? "the files" : "the file"} again to ask about ${names.length > 1 ? "them" : "it"}; your answers stay.`;

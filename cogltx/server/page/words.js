// The words that people read; those of reports and the command line are the same.

const percent = (share) => `${(100 * share).toFixed(0)} %`;

export const level = (confidence) => (confidence >= 0.8 ? "sure" : confidence >= 0.5 ? "probably" : "not sure");
export const sureness = (confidence) => `${level(confidence)}, ${percent(confidence)}`;
export const prepared = (share) => `prepared ${percent(Math.floor(100 * share) / 100)}`;
export const uploaded = (share) =>
  share === 0 ? "waiting" : share < 1 ? `uploading, ${percent(share)}` : "being read …";

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
  if (seconds >= 90) return `about ${Math.round(seconds / 60)} min left`;
  return `about ${Math.max(1, Math.round(seconds))} s left`;
}

/** A message of the server as a sentence. */
export function sentence(message) {
  const end = /[.!?)…]$/.test(message) ? "" : ".";
  return message && message[0].toUpperCase() + message.slice(1) + end;
}

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

/** "a.pdf", "5 documents". */
export const listed = (names) => (names.length > 1 ? `${names.length} documents` : (names[0] ?? "the text"));

/** "a.pdf", "a.pdf and b.md", "a.pdf, b.md and c.txt", "5 documents". */
function named(names) {
  if (names.length < 2 || names.length > 3) return listed(names);
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

export const notFound = (names, confidence) => `${confidence ? "Not found" : "No sure answer"} in ${listed(names)}`;

/** The sentence that says what was found in documents, for screen readers and for the exported conversation. */
export function verdict(result, documents) {
  const nameOf = (one) => (documents.length > 1 ? documents.find(({ key }) => key === one.document)?.name : "");
  const said = (one) => (one.confidence > 0 ? ` (${sureness(one.confidence)})` : "");
  const found = (one, text) => [text + said(one), nameOf(one), one.place].filter(Boolean).join(", ");
  if (result.answer) return found(result, result.answer);
  const [nearest] = result.alternatives;
  const none = `${notFound(documents.map(({ name }) => name), result.confidence)}${said(result)}.`;
  return nearest ? `${none} The nearest is ${found(nearest, `“${nearest.text}”`)}.` : none;
}

export const keeping = (store) =>
  store
    ? "This server keeps documents, also when it is restarted."
    : "This server forgets documents when it is restarted; your answers stay in this browser.";

/** The sentence about documents that the server has lost. */
export function gone(names, store) {
  const [files, them] = names.length > 1 ? ["the files", "them"] : ["the file", "it"];
  const why = store
    ? "Documents that nobody asked about for long make room for new ones."
    : "It was restarted, and it does not keep documents.";
  return `The server no longer has ${named(names)}. ${why} Add ${files} again to ask about ${them}; your answers stay.`;
}

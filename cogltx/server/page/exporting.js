// The conversation as Markdown and JSON, and the corrections as training data.

import * as documents from "./documents.js";
import { download, notify } from "./dom.js";
import { state } from "./store.js";
import * as words from "./words.js";

const answered = () => state.items.filter((item) => item.state === "answered");
const nameOf = (item, key) => item.documents.find((held) => held.key === key)?.name ?? documents.byKey(key)?.name ?? "";
const today = () => new Date().toISOString().slice(0, 10);

export const corrections = () => answered().filter((item) => item.correction);

/** Characters that Markdown would take as markup are escaped. */
const plain = (text) => text.replace(/\s+/g, " ").replace(/[\\`*_{}[\]<>#|~]/g, "\\$&");

function markdown() {
  const parts = [`# Questions and answers, ${today()}`];
  for (const item of answered()) {
    const names = item.documents.map(({ name }) => name);
    const where = (place) => plain([nameOf(item, place.document), place.place].filter(Boolean).join(", "));
    const other = (one) => `- less probable: ${plain(one.text)} (${words.sureness(one.confidence)}), ${where(one)}`;
    const others = item.result.alternatives.map(other);
    const passages = item.result.passages.map((one) => `> ${plain(one.text)}\n>\n> — ${where(one)}`);
    parts.push(`## ${plain(item.question)}`, `**${plain(words.verdict(item.result, item.documents))}**`);
    const { correction } = item;
    if (correction) parts.push(`Corrected: ${correction.none ? "there is no answer" : plain(correction.text)}`);
    if (others.length && item.result.answer) parts.push(others.join("\n"));
    parts.push(`Asked about ${plain(names.join(", "))}.`, ...passages);
  }
  return `${parts.join("\n\n")}\n`;
}

function asJson() {
  const span = (item) => ({ text, start, end, confidence, page, place, document }) =>
    ({ text, start, end, confidence, page: page ?? null, place, document: nameOf(item, document) });
  const conversation = answered().map((item) => {
    const { result, correction } = item;
    const answer = result.answer ? span(item)({ ...result, text: result.answer }) : null;
    return {
      question: item.question,
      asked: item.asked,
      documents: item.documents.map(({ name }) => name),
      answer,
      confidence: result.confidence,
      alternatives: result.alternatives.map(span(item)),
      passages: result.passages.map(span(item)),
      correction: !correction ? null : correction.none ? { text: "" } : span(item)(correction),
    };
  });
  return JSON.stringify({ offsets: "Unicode code points from the beginning of the document", conversation }, null, 2);
}

/** The lines for one corrected question; an answer is about one document, "no answer" about each. */
async function examples(item) {
  const { correction } = item;
  const isYesOrNo = !correction.none && correction.start === null;
  const keys = correction.none ? item.documents.map(({ key }) => key) : [correction.document];
  return Promise.all(
    keys.map(async (key, index) => {
      const held = documents.byKey(key);
      if (!held) throw new Error(`${nameOf(item, key)} was removed`);
      const { text, outline } = await documents.content(held);
      const answer = isYesOrNo ? correction.text : { text: correction.text, start: correction.start };
      if (!correction.none && !isYesOrNo && text.slice(correction.start, correction.end) !== correction.text)
        throw new Error(`${held.name} is not the same text any more`);
      const segments = outline.segments.map(([start, end, heading]) => ({ start, end, heading }));
      return {
        id: keys.length > 1 ? `${item.key}-${index + 1}` : item.key,
        document: held.name,
        text: text.text,
        ...(segments.length && { segments }),
        ...(outline.pages.length && { pages: outline.pages }),
        question: item.question,
        answers: correction.none ? [] : [answer],
      };
    }),
  );
}

async function trainingLines() {
  const lines = [];
  for (const item of corrections()) {
    try {
      lines.push(...(await examples(item)));
    } catch (error) {
      notify(`The correction of “${words.snippet(item.question, 60)}” is left out: ${error.message}`);
    }
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

export const saveMarkdown = () => download(`answers-${today()}.md`, "text/markdown", markdown());
export const saveJson = () => download(`answers-${today()}.json`, "application/json", asJson());

export async function saveCorrections() {
  const lines = await trainingLines();
  if (lines) download(`corrections-${today()}.jsonl`, "application/jsonl", lines);
}

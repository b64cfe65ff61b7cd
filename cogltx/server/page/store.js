// What survives a reload, in the browser's storage: documents, the conversation, the typed question. Bounded.

const NAME = "cogltx-page-1";
const MOST_ITEMS = 100;
const MOST_CHARACTERS = 2_000_000;

export const state = { documents: [], items: [], draft: "", shown: "", active: "", ...stored() };

function stored() {
  try {
    return JSON.parse(localStorage.getItem(NAME)) ?? {};
  } catch {
    return {};
  }
}

function kept(items, most) {
  const saved = { ...state, documents: state.documents.filter((held) => held.id), items: items.slice(-most) };
  return JSON.stringify(saved, (key, value) => (key.startsWith("_") ? undefined : value)); // "_": of this visit only
}

/** Save the state. The oldest questions are dropped if it is too large. */
export function save() {
  for (let most = MOST_ITEMS; most >= 1; most = Math.floor(most / 2)) {
    const text = kept(state.items, most);
    if (text.length > MOST_CHARACTERS) continue;
    try {
      localStorage.setItem(NAME, text);
      return;
    } catch {
      // no room or no storage at all
    }
  }
}

/** A name that is unique in this browser. */
export const newKey = () => Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join("");

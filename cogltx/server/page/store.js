// What survives a reload, in the browser's storage: documents, the conversation, the typed question. Bounded.

const NAME = "cogltx-page-1";
const MOST_ITEMS = 100;
const MOST_CHARACTERS = 2_000_000;

const MOST_REMOVED = 500;

export const state = { documents: [], items: [], removed: [], draft: "", shown: "", active: "", ...stored() };

let isFollowing = false;

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
  if (isFollowing) return; // else two tabs would answer each other
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

/** Note that a document or a question was removed, so that another tab does not bring it back. */
export function forget({ key }) {
  state.removed = [...state.removed, key].slice(-MOST_REMOVED);
}

export function remember({ key }) {
  state.removed = state.removed.filter((other) => other !== key);
}

/** Take over what another tab of this browser has added or removed, and call a function after it. */
export function follow(callback) {
  window.addEventListener("storage", (event) => {
    if (event.key !== NAME || !event.newValue) return;
    const other = JSON.parse(event.newValue);
    const isSettled = ({ state: name }) => name === undefined || !["", "asking"].includes(name);
    state.removed = [...new Set([...state.removed, ...other.removed])].slice(-MOST_REMOVED);
    for (const list of ["documents", "items"]) {
      const known = new Set([...state.removed, ...state[list].map(({ key }) => key)]);
      const news = other[list].filter((one) => !known.has(one.key) && isSettled(one));
      state[list] = [...state[list].filter(({ key }) => !state.removed.includes(key)), ...news];
    }
    state.items.sort((a, b) => (a.asked < b.asked ? -1 : 1));
    isFollowing = true;
    callback();
    isFollowing = false;
  });
}

/** A name that is unique in this browser. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join("");
}

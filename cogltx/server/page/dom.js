// Elements of the page. Text from documents only ever becomes text nodes.

export const $ = (id) => document.getElementById(id);

/** Create an element. A function is a listener, true is an attribute without a value; null and false are left out. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (![null, undefined, false].includes(value)) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => ![null, undefined, false, ""].includes(child)));
  return made;
}

export const button = (attributes, ...children) => element("button", { type: "button", ...attributes }, ...children);

/** A coloured dot that stands for a document. */
export const dot = (color) => element("span", { class: "dot", "data-color": color, "aria-hidden": "true" });

/** Let a screen reader say a sentence once, after what it is saying now. */
export function announce(sentence) {
  const line = element("p", {}, sentence);
  $("announcer").append(line);
  while ($("announcer").childElementCount > 3) $("announcer").firstElementChild.remove();
}

/** Take away messages about something. */
export function dismiss(about) {
  for (const message of [...$("messages").children]) if (message.dataset.about === about) message.remove();
}

/** Show a message that stays until it is dismissed. `action` is {label, run}, a button that ends the message. */
export function notify(sentence, { kind = "problem", action = null, about = "" } = {}) {
  if (about) dismiss(about);
  const close = () => message.remove();
  const message = element(
    "div",
    { class: `message ${kind}`, "data-about": about },
    element("p", {}, sentence),
    action && button({ class: "small", click: () => (close(), action.run()) }, action.label),
    button({ class: "icon", "aria-label": `Dismiss: ${sentence}`, title: "Dismiss", click: close }, "×"),
  );
  $("messages").append(message);
  return message;
}

/** Call a function once the calls have stopped for some milliseconds. */
export function settled(run, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), milliseconds);
  };
}

/** Save text as a file of the visitor. */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

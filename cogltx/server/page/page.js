// The page: connects its parts with the buttons, forms and keys.

import { Failure, onKeyNeeded } from "./api.js";
import * as asking from "./asking.js";
import * as conversation from "./conversation.js";
import * as correcting from "./correcting.js";
import { $, element, settled } from "./dom.js";
import * as documents from "./documents.js";
import * as exporting from "./exporting.js";
import * as matches from "./matches.js";
import { save, state } from "./store.js";
import * as viewer from "./viewer.js";
import * as words from "./words.js";

/** On a narrow screen one pane is shown: "document" or "answers". */
function setView(name) {
  document.body.dataset.view = name;
  for (const tab of $("views").children) tab.setAttribute("aria-pressed", String(tab.dataset.view === name));
}

function startViews() {
  for (const tab of $("views").children) tab.addEventListener("click", () => setView(tab.dataset.view));
  matches.whenRevealed(() => setView("document"));
  correcting.whenBegun(() => setView("document"));
  setView(state.items.length ? "answers" : "document");
}

function startFiles() {
  for (const id of ["add", "add-first"]) $(id).addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", (event) => {
    documents.addFiles([...event.target.files]);
    event.target.value = "";
    $("question").focus();
  });
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      document.body.classList.add("over");
    });
  }
  document.addEventListener("dragleave", (event) => event.relatedTarget || document.body.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("over");
    documents.addFiles([...event.dataTransfer.files]);
  });
}

function startPasting() {
  for (const id of ["paste-button", "paste-first"]) $(id).addEventListener("click", () => $("paste").showModal());
  $("paste-cancel").addEventListener("click", () => $("paste").close());
  $("paste-form").addEventListener("submit", () => {
    documents.addText($("text").value, $("text-name").value.trim() || "pasted text");
    $("paste-form").reset();
    setTimeout(() => $("question").focus());
  });
}

async function sample() {
  const text = await (await fetch("/page/sample.txt")).text();
  documents.addText(text, "The lighthouse of Skarholm");
  $("question").value = "Which engineer built the lighthouse?";
  $("question").focus();
}

/** Why a question cannot be asked now; "" if it can. */
function obstacle() {
  if (documents.askable().length || documents.uploads().length) return "";
  const lost = state.documents.filter((held) => held.lost).map(({ name }) => name);
  if (lost.length) return words.gone(lost, documents.info.store);
  return "Add a document first: a file or a text. The question stays here.";
}

function submit() {
  const question = $("question").value.trim();
  if (!question) return;
  const problem = obstacle();
  $("ask-problem").textContent = problem;
  if (problem) return;
  const scope = $("scope").value;
  $("question").value = state.draft = "";
  setView("answers");
  conversation.ask(asking.newItem(question, scope));
}

function startQuestion() {
  $("question").value = state.draft;
  const remember = settled(save, 300);
  $("question").addEventListener("input", () => {
    state.draft = $("question").value;
    $("ask-problem").textContent = "";
    remember();
  });
  $("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  $("ask").addEventListener("submit", (event) => (event.preventDefault(), submit()));
  documents.onChange(showScope);
  showScope();
}

/** With several documents, the question may be about one of them. */
function showScope() {
  const before = $("scope").value;
  const askable = documents.askable();
  const all = element("option", { value: "" }, `all documents (${askable.length})`);
  $("scope").replaceChildren(all, ...askable.map(({ key, name }) => element("option", { value: key }, name)));
  $("scope").value = askable.some(({ key }) => key === before) ? before : "";
  $("scope-part").hidden = askable.length < 2;
  if (!obstacle()) $("ask-problem").textContent = "";
}

function startMenu() {
  const close = () => ($("menu").open = false);
  const { saveMarkdown: markdown, saveJson: json, saveCorrections: corrections } = exporting;
  for (const [id, run] of Object.entries({ markdown, json, corrections, clear: conversation.clear })) {
    $(`menu-${id}`).addEventListener("click", () => (close(), run()));
  }
  $("menu").addEventListener("toggle", () => {
    const corrected = exporting.corrections().length;
    for (const id of ["markdown", "json", "clear"]) $(`menu-${id}`).disabled = !state.items.length;
    $("menu-corrections").disabled = !corrected;
    $("menu-corrections").lastElementChild.textContent = corrected
      ? `${words.counted(corrected, "example")} for training, JSON Lines`
      : "none yet: “Correct it” under an answer";
  });
  $("menu").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    close();
    $("menu").firstElementChild.focus();
  });
  document.addEventListener("click", (event) => $("menu").contains(event.target) || close());
}

function startKey() {
  let asked = null; // requests at the same time share one form
  onKeyNeeded((isWrong) => (asked ??= askKey(isWrong).finally(() => (asked = null))));
}

function askKey(isWrong) {
  $("key-problem").textContent = isWrong ? "The server does not accept this key." : "";
  if (!$("key").open) $("key").showModal();
  return new Promise((resolve, reject) => {
    const take = () => {
      const key = $("api-key").value;
      $("api-key").value = "";
      if (!key) return reject(new Failure("This server needs a key."));
      sessionStorage.setItem("key", key);
      resolve();
    };
    $("key").addEventListener("close", take, { once: true });
  });
}

async function start() {
  startKey();
  startViews();
  startFiles();
  startPasting();
  startQuestion();
  startMenu();
  $("sample").addEventListener("click", sample);
  correcting.start();
  matches.start();
  conversation.start();
  viewer.start();
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && documents.refresh());
  await documents.start();
  asking.resume();
}

start();

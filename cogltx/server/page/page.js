// The page: upload documents, ask, show the report that the server renders. All text from documents is escaped there.

const $ = (id) => document.getElementById(id);
const held = []; // documents: {id, name, characters, pages}
const uploads = new Set(); // promises of those in progress
let questions = 0; // in progress
let latest = 0; // number of the newest question

async function request(path, options = {}) {
  const key = sessionStorage.getItem("key");
  const headers = { "X-Requested-With": "cogltx", ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("The server does not answer.");
  }
  if (response.ok) return response;
  if (response.status === 401) {
    await newKey();
    return request(path, options);
  }
  const failure = await response.json().catch(() => null);
  throw new Error(failure?.error?.message ?? `The server answered ${response.status}.`);
}

function newKey() {
  $("key").hidden = false;
  $("api-key").focus();
  return new Promise((resolve) => $("key").addEventListener("submit", resolve, { once: true }));
}

const post = (path, body) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

function tell() {
  const parts = [];
  if (uploads.size) parts.push("Reading the file …");
  if (questions) parts.push(questions > 1 ? `Looking for ${questions} answers …` : "Looking for the answer …");
  $("status").textContent = parts.join(" ");
}

function complain(error) {
  $("problem").textContent = error ? error.message : "";
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function showDocuments() {
  $("documents").replaceChildren(
    ...held.map((one) => {
      const size = one.pages ? `${one.pages} page${one.pages > 1 ? "s" : ""}` : `${one.characters.toLocaleString("en")} characters`;
      const item = element("li", `${one.name} `);
      item.append(element("span", size, { class: "quiet" }));
      const remove = element("button", "×", { type: "button", "aria-label": `Remove ${one.name}` });
      remove.addEventListener("click", () => {
        held.splice(held.indexOf(one), 1);
        showDocuments();
        $("question").focus();
        request(`/documents/${one.id}`, { method: "DELETE" }).catch(() => {});
      });
      item.append(remove);
      return item;
    }),
  );
}

async function hold(sent) {
  try {
    held.push(await (await sent).json());
    showDocuments();
    $("question").focus();
  } catch (error) {
    complain(error);
  }
}

async function upload(send) {
  complain();
  const reading = hold(send());
  uploads.add(reading);
  tell();
  await reading;
  uploads.delete(reading);
  tell();
}

async function uploadFiles(files) {
  for (const file of files) {
    const form = new FormData();
    form.append("file", file);
    await upload(() => request("/files", { method: "POST", body: form }));
  }
}

function show(item) {
  for (const button of $("history").querySelectorAll("button")) button.setAttribute("aria-current", String(button === item.button));
  $("result").innerHTML = item.report; // rendered and escaped by the server; scripts in it would not run
}

async function ask(question) {
  const number = (latest += 1);
  const item = { button: element("button", question, { type: "button", disabled: "" }), report: "" };
  const line = document.createElement("li");
  line.append(item.button);
  $("history").append(line);
  questions += 1;
  tell();
  try {
    const response = await post("/report?whole_page=false", { question, documents: held.map((one) => one.id) });
    item.report = await response.text();
    const parsed = new DOMParser().parseFromString(item.report, "text/html");
    const answer = parsed.querySelector(".answer")?.firstChild?.textContent.trim() ?? "";
    item.button.append(element("strong", answer));
    item.button.disabled = false;
    item.button.addEventListener("click", () => {
      show(item);
      $("result").focus();
    });
    if (number === latest) show(item);
  } catch (error) {
    line.remove();
    complain(error);
  } finally {
    questions -= 1;
    tell();
  }
}

$("file").addEventListener("change", async (event) => {
  const files = [...event.target.files];
  event.target.value = "";
  await uploadFiles(files);
});

$("paste-button").addEventListener("click", () => {
  $("paste").hidden = !$("paste").hidden;
  $("paste-button").setAttribute("aria-expanded", String(!$("paste").hidden));
  if (!$("paste").hidden) $("text").focus();
});

$("paste").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("text").value;
  $("text").value = "";
  $("paste").hidden = true;
  $("paste-button").setAttribute("aria-expanded", "false");
  await upload(() => post("/documents", { text, name: "pasted text" }));
});

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question) return;
  if (!held.length && !uploads.size) return complain(new Error("Choose a file or paste a text first."));
  complain();
  $("question").value = "";
  await Promise.all(uploads); // a question may come before its text is read
  if (held.length) ask(question);
  else $("question").value ||= question;
});

$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", $("api-key").value);
  $("api-key").value = "";
  $("key").hidden = true;
});

for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.add("over");
  });
}
for (const kind of ["dragleave", "drop"]) document.addEventListener(kind, () => $("drop").classList.remove("over"));
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  await uploadFiles([...event.dataTransfer.files]);
});

// Requests to the server.

export class Failure extends Error {
  constructor(message, type = "", status = 0) {
    super(message);
    Object.assign(this, { type, status });
  }
}

export const UNREACHABLE = "The server does not answer. It may be stopped, or restarting.";
const BROKEN_OFF = "The connection ended before the answer came. The server may have been restarted.";

let enterKey = async () => {}; // shows the form for the key
export const onKeyNeeded = (callback) => (enterKey = callback);

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

function headers(more = {}) {
  const key = sessionStorage.getItem("key");
  return { "X-Requested-With": "cogltx", ...(key ? { Authorization: `Bearer ${key}` } : {}), ...more };
}

function failure(status, text) {
  let problem = null;
  try {
    problem = JSON.parse(text).error;
  } catch {
    // not from the server itself
  }
  return new Failure(problem?.message ?? `The server answered with the status ${status}.`, problem?.type, status);
}

/** Send a request; `body` is an object. Asks for the key if the server needs one. */
export async function request(path, { method = "GET", body, signal, accept, patience = 3 } = {}) {
  const options = { method, signal, headers: headers({ ...(accept && { Accept: accept }) }) };
  if (body) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const used = sessionStorage.getItem("key");
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Failure(UNREACHABLE, "unreachable");
  }
  if (response.ok) return response;
  const again = { method, body, signal, accept, patience: patience - 1 };
  if (response.status === 401) {
    if (sessionStorage.getItem("key") === used) await enterKey(Boolean(used));
    return request(path, again);
  }
  if (response.status === 429 && patience > 0) {
    await pause(Math.min(10, Number(response.headers.get("Retry-After")) || 2));
    return request(path, again);
  }
  throw failure(response.status, await response.text());
}

export const json = async (path, options) => (await request(path, options)).json();

/** The text of a response as it is: `response.text()` would drop a byte order mark, which offsets count. */
export async function text(path) {
  const bytes = await (await request(path)).arrayBuffer();
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/** Upload a file; `progress` gets the share that is sent. fetch does not report it. */
export async function upload(file, progress, signal, patience = 3) {
  const used = sessionStorage.getItem("key");
  const sent = await send(file, progress, signal);
  if (sent.status === 201) return JSON.parse(sent.responseText);
  if (sent.status === 401) {
    if (sessionStorage.getItem("key") === used) await enterKey(Boolean(used));
    return upload(file, progress, signal, patience);
  }
  if (sent.status === 429 && patience > 0) {
    await pause(Math.min(10, Number(sent.getResponseHeader("Retry-After")) || 2));
    return upload(file, progress, signal, patience - 1);
  }
  throw failure(sent.status, sent.responseText);
}

function send(file, progress, signal) {
  return new Promise((resolve, reject) => {
    const sent = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file);
    sent.upload.addEventListener("progress", (event) => progress(event.total ? event.loaded / event.total : 1));
    sent.addEventListener("load", () => resolve(sent));
    sent.addEventListener("error", () => reject(new Failure(UNREACHABLE, "unreachable")));
    sent.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    signal.addEventListener("abort", () => sent.abort());
    sent.open("POST", "/files");
    for (const [key, value] of Object.entries(headers())) sent.setRequestHeader(key, value);
    sent.send(form);
  });
}

/** Ask a question. `on` has functions for the events "progress" and "evidence"; returns the prediction. */
export async function answer(body, on, signal) {
  const response = await request("/answer", { method: "POST", body, signal, accept: "text/event-stream" });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response.json();
  try {
    for await (const { event, data } of events(response.body)) {
      if (event === "answer") return data;
      if (event === "error") throw new Failure(data.error.message, data.error.type);
      on[event]?.(data);
    }
  } catch (error) {
    if (error instanceof Failure || error.name === "AbortError") throw error;
  }
  throw new Failure(BROKEN_OFF, "unreachable");
}

/** The events of a stream: {event, data}. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (waiting + value).replaceAll("\r\n", "\n").split("\n\n");
      waiting = parts.pop();
      for (const part of parts) {
        const fields = part.split("\n").map((line) => /^(\w+): ?(.*)$/s.exec(line)).filter(Boolean);
        const of = (name) => fields.filter((field) => field[1] === name).map((field) => field[2]).join("\n");
        if (of("data")) yield { event: of("event"), data: JSON.parse(of("data")) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

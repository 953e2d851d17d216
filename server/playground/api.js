// Requests to the server, and its errors.

const KEY = "sonant.key";
let key = storedKey();

/** A request that failed. `status` is 0 if there was no response. */
export class RequestError extends Error {
  constructor(message, { status = 0, code = null, param = null, id = null, retryAfter = null } = {}) {
    super(message);
    Object.assign(this, { status, code, param, id, retryAfter });
  }
}

export const hasKey = () => key !== "";

/** Send `newKey` with all further requests. It is kept until the tab is closed. */
export function useKey(newKey) {
  key = newKey.trim();
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    // The browser stores nothing: the key is lost when the page is reloaded.
  }
}

/** The model of the server, with its languages and tasks. */
export const model = async () => (await (await request("v1/models")).json()).data[0];

/** All voices that have a name. */
export const voices = async () => (await (await request("v1/audio/voices")).json()).data;

/** Store a voice. `fields` are those of the form of `/v1/audio/voices`. Resolves to the stored voice. */
export async function storeVoice(fields) {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  return (await request("v1/audio/voices", { method: "POST", body })).json();
}

/** Request speech. Resolves to a response whose body streams. */
export function speech(body, id, signal) {
  const headers = { "Content-Type": "application/json", "X-Request-Id": id };
  // Load balancers send requests for one voice to one server.
  if (typeof body.voice === "string") headers["X-Sonant-Voice"] = encodeURIComponent(body.voice);
  return request("v1/audio/speech", { method: "POST", headers, signal, body: JSON.stringify(body) });
}

/** Return the RequestError for a speech request that ended early. */
export async function reasonFor(id) {
  const message = "The speech ended early.";
  try {
    const outcome = await (await request(`v1/audio/speech/${id}`)).json();
    return new RequestError(message, { code: outcome.error ?? outcome.outcome, id });
  } catch {
    return new RequestError(message, { id });
  }
}

/** Return a new request id, which appears in the server's log and responses. */
export function newId() {
  const random = crypto.getRandomValues(new Uint8Array(8));
  return "page-" + Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function request(path, options = {}) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const response = await fetch(path, { ...options, headers }).catch((error) => {
    throw error.name === "AbortError" ? error : new RequestError("The server cannot be reached.");
  });
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response) {
  const { status, headers } = response;
  const error = (await response.json().catch(() => null))?.error ?? {};
  const id = headers.get("X-Request-Id");
  const retryAfter = Number(headers.get("Retry-After")) || null;
  return new RequestError(error.message ?? `The server returned status ${status}.`, { ...error, status, id, retryAfter });
}

function storedKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

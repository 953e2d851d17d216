// What the page asks the server, and how the server's refusals are told.

const KEY = "sonant.key";
let key = remembered();

/** A request that failed. `status` is 0 where no answer came. */
export class Refusal extends Error {
  constructor(message, { status = 0, code = null, param = null, id = null, retryAfter = null } = {}) {
    super(message);
    Object.assign(this, { status, code, param, id, retryAfter });
  }
}

export const hasKey = () => key !== "";

/** Send this key from now on. It outlives a reload, but not the tab. */
export function useKey(given) {
  key = given.trim();
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    // A browser that stores nothing: the key lives as long as the page.
  }
}

/** The server's one model, with its languages and tasks. */
export const model = async () => (await (await ask("v1/models")).json()).data[0];

/** Every voice that can be named. */
export const voices = async () => (await (await ask("v1/audio/voices")).json()).data;

/** Speech as it is made: a response whose body streams. */
export function speech(body, id, signal) {
  const headers = { "Content-Type": "application/json", "X-Request-Id": id };
  return ask("v1/audio/speech", { method: "POST", headers, signal, body: JSON.stringify(body) });
}

/** Why a speech request ended midway, as a Refusal. */
export async function reasonFor(id) {
  const message = "The speech broke off midway.";
  try {
    const outcome = await (await ask(`v1/audio/speech/${id}`)).json();
    return new Refusal(message, { code: outcome.error ?? outcome.outcome, id });
  } catch {
    return new Refusal(message, { id });
  }
}

/** An id that the server's log and answers will carry. */
export function newId() {
  const random = crypto.getRandomValues(new Uint8Array(8));
  return "page-" + Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const response = await fetch(path, { ...options, headers }).catch((error) => {
    throw error.name === "AbortError" ? error : new Refusal("The server cannot be reached.");
  });
  if (!response.ok) throw await refusalOf(response);
  return response;
}

async function refusalOf(response) {
  const { status, headers } = response;
  const told = (await response.json().catch(() => null))?.error ?? {};
  const id = headers.get("X-Request-Id");
  const retryAfter = Number(headers.get("Retry-After")) || null;
  return new Refusal(told.message ?? `The server answered ${status}.`, { ...told, status, id, retryAfter });
}

function remembered() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

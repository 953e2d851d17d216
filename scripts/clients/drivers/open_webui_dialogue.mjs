// Speaks turns as Open WebUI does: the sentence splitter of its own page, and the request of its server for each piece.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [address, turns, folder] = process.argv.slice(2);
const scripts = join(process.env.CLIENT_FOLDER, "open_webui/frontend/_app/immutable/chunks");

// The page's bundle expects a browser. JS_SHA256_NO_NODE_JS tells the library js-sha256 in it not to use Node's crypto.
Object.assign(globalThis, { window: globalThis, self: globalThis, document: {}, JS_SHA256_NO_NODE_JS: true });

/** Return getMessageContentParts of the page. The names in its bundle are minified, so it is found by its source. */
async function splitter() {
  const isSplitter = (value) => typeof value === "function" && /"punctuation"\)=>\{.*<details.*switch/.test(String(value));
  for (const name of readdirSync(scripts)) {
    if (!/="punctuation"\)=>\{/.test(readFileSync(join(scripts, name), "utf-8"))) continue;
    const found = Object.values(await import(join(scripts, name))).find(isSplitter);
    if (found) return found;
  }
  throw new Error("the page's bundle has no getMessageContentParts");
}

async function speak(input) {
  const response = await fetch(`${address}/v1/audio/speech`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: "Bearer none" },
    body: JSON.stringify({ input, voice: "alloy", model: "tts-1" }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return Buffer.from(await response.arrayBuffer());
}

const split = await splitter();
for (const [number, tokens] of JSON.parse(turns).entries()) {
  const pieces = [];
  for (const part of split(tokens.join(""))) pieces.push(await speak(part));
  writeFileSync(join(folder, `${String(number).padStart(2, "0")}.mp3`), Buffer.concat(pieces));
}

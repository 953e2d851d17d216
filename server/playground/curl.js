// The request as a line for a shell.

import { dataUrlHead } from "./recording.js";

const MOST_INLINE = 30_000; // characters: an argument of a program has at most 128 KiB

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/**
 * A curl line that asks for `body` as a WAV file. The key is named, not told. A `recording` (name and type) is
 * read from its file, and piped like a long text: an argument could not hold it.
 */
export function curlLine(url, body, { keyed, recording }) {
  const fields = { ...body, response_format: "wav" };
  const headers = ["-H 'Content-Type: application/json'"];
  if (keyed) headers.push('-H "Authorization: Bearer $SONANT_API_KEY"');
  const call = [`curl -sS --fail-with-body ${quoted(url)}`, ...headers].join(" \\\n  ");
  const json = JSON.stringify(fields);
  if (!recording && json.length < MOST_INLINE) return `${call} \\\n  -d ${quoted(json)} \\\n  -o speech.wav`;
  const piped = recording ? withRecording(json, recording) : `printf %s ${quoted(json)}`;
  return `${piped} |\n${call} \\\n  --data-binary @- -o speech.wav`;
}

function withRecording(json, recording) {
  return [
    `{ printf %s ${quoted(`{"ref_audio":"${dataUrlHead(recording)}`)}`,
    `  base64 < ${quoted("./" + recording.name)} | tr -d '\\n'`,
    `  printf %s ${quoted(`",${json.slice(1)}`)}; }`,
  ].join("\n");
}

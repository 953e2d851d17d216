// The request as a shell command.

import { dataUrlHead } from "./recording.js";

const MAX_INLINE = 30_000; // characters: a program's argument is limited to 128 KiB

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/**
 * Return a curl command that requests `body` as a WAV file. It reads the API key from a variable. A `recording`
 * (name and type) is read from its file and piped, as is a long text, because an argument is too short for it.
 */
export function curlCommand(url, body, { keyed, recording }) {
  const fields = { ...body, response_format: "wav" };
  const headers = ["-H 'Content-Type: application/json'"];
  if (keyed) headers.push('-H "Authorization: Bearer $SONANT_API_KEY"');
  const call = [`curl -sS --fail-with-body ${quoted(url)}`, ...headers].join(" \\\n  ");
  const json = JSON.stringify(fields);
  if (!recording && json.length < MAX_INLINE) return `${call} \\\n  -d ${quoted(json)} \\\n  -o speech.wav`;
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

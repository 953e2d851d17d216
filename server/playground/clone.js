// The recording to clone: from the microphone, or a file. It can be kept as a voice with a name.

import { storeVoice } from "./api.js";
import { $, seconds } from "./page.js";
import { dataUrl, record } from "./recording.js";

const MAX_SECONDS = 30;

let recording = null; // a File
let endRecording = null;

/** Set up the buttons. `changed` is called after a new recording, `failed` with an Error, `kept` with a stored voice. */
export function setUp(model, { changed, failed, kept }) {
  $("ref_text").disabled = !model.in_context;
  $("record").onclick = () => {
    if (endRecording) endRecording();
    else recordVoice(changed).catch(failed);
  };
  $("ref_audio").onchange = () => {
    const [chosen] = $("ref_audio").files;
    if (chosen) setFile(chosen, false, changed);
  };
  const keep = () => keepVoice().then(kept, failed);
  $("keep").onclick = keep;
  $("name").onkeydown = (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    event.preventDefault(); // would start speech
    keep();
  };
}

/** The field `ref_text` of a request, if there is a transcript. */
export const transcript = () => ($("ref_text").value.trim() ? { ref_text: $("ref_text").value } : {});

/** The recording, or a placeholder before there is one. */
export const file = () => recording ?? { name: "recording.wav", type: "audio/wav" };

/** The field `ref_audio` of a request. Throws if there is no recording. */
export async function reference() {
  return { ref_audio: await dataUrl(existing()) };
}

function existing() {
  if (recording) return recording;
  const error = new Error("No recording to clone: record a voice, or choose a file.");
  throw Object.assign(error, { param: "ref_audio" });
}

async function keepVoice() {
  const fields = { name: $("name").value.trim(), audio_sample: existing(), ...transcript() };
  $("keep").disabled = true;
  try {
    return await storeVoice(fields);
  } catch (error) {
    if (error.param === "audio_sample") error.param = "ref_audio";
    throw error;
  } finally {
    $("keep").disabled = false;
  }
}

async function recordVoice(changed) {
  const finished = await record();
  const start = performance.now();
  const clock = setInterval(() => describe(seconds((performance.now() - start) / 1000)), 100);
  const limit = setTimeout(() => endRecording(), 1000 * MAX_SECONDS);
  setRecording(true);
  await new Promise((resolve) => (endRecording = resolve));
  endRecording = null;
  clearInterval(clock);
  clearTimeout(limit);
  setRecording(false);
  setFile(await finished(), true, changed);
}

/** Show `file`. If it was `recorded` here it can be saved, because no other copy exists. */
function setFile(file, recorded, changed) {
  recording = file;
  URL.revokeObjectURL($("recording-audio").src);
  const address = URL.createObjectURL(file);
  $("recording-audio").src = address;
  Object.assign($("recording-save"), { href: address, download: file.name, hidden: !recorded });
  $("recording").hidden = false;
  describe(file.name);
  changed();
}

function setRecording(active) {
  $("record").textContent = active ? "Stop recording" : "Record";
  $("record").classList.toggle("live", active);
}

function describe(text) {
  $("recording-name").textContent = text;
}

// The recording to clone: made here, or chosen.

import { $, seconds } from "./page.js";
import { dataUrl, record } from "./recording.js";

const MOST_SECONDS = 30;

let recording = null; // a File
let endRecording = null;

/** Make the buttons work. `changed` hears of a new recording, `failed` of Errors. */
export function offer(model, { changed, failed }) {
  $("ref_text").disabled = !model.in_context;
  $("record").onclick = () => {
    if (endRecording) endRecording();
    else listen(changed).catch(failed);
  };
  $("ref_audio").onchange = () => {
    const [chosen] = $("ref_audio").files;
    if (chosen) keep(chosen, false, changed);
  };
}

/** The `ref_text` of a request, where there is one. */
export const transcript = () => ($("ref_text").value.trim() ? { ref_text: $("ref_text").value } : {});

/** The recording, or what stands for one that is still to come. */
export const file = () => recording ?? { name: "recording.wav", type: "audio/wav" };

/** The recording as a request carries it. Throws where there is none. */
export async function reference() {
  if (recording) return { ref_audio: await dataUrl(recording) };
  const error = new Error("There is nothing to clone yet: record a voice, or choose a file.");
  throw Object.assign(error, { param: "ref_audio" });
}

async function listen(changed) {
  const finished = await record();
  const begun = performance.now();
  const clock = setInterval(() => describe(seconds((performance.now() - begun) / 1000)), 100);
  const limit = setTimeout(() => endRecording(), 1000 * MOST_SECONDS);
  pressed(true);
  await new Promise((resolve) => (endRecording = resolve));
  endRecording = null;
  clearInterval(clock);
  clearTimeout(limit);
  pressed(false);
  keep(await finished(), true, changed);
}

/** Show the recording, which can be saved if it was `made` here: then it is nowhere else. */
function keep(taken, made, changed) {
  recording = taken;
  URL.revokeObjectURL($("recording-audio").src);
  const address = URL.createObjectURL(taken);
  $("recording-audio").src = address;
  Object.assign($("recording-save"), { href: address, download: taken.name, hidden: !made });
  $("recording").hidden = false;
  describe(taken.name);
  changed();
}

function pressed(now) {
  $("record").textContent = now ? "Stop recording" : "Record";
  $("record").classList.toggle("live", now);
}

function describe(text) {
  $("recording-name").textContent = text;
}

// The page: connects the form, the playback and the messages.

import { hasKey, model, useKey, voices } from "./api.js";
import { curlCommand } from "./curl.js";
import { clearFailure, showFailure } from "./failure.js";
import { $, choices } from "./page.js";
import { fields, seedOf } from "./request.js";
import { replay, speak } from "./utterance.js";
import * as voice from "./voices.js";

let seed = null;
let utterance = null;
let last = null; // the utterance to replay

const showStatus = (text) => ($("status").textContent = text);
const currentFields = () => fields($("form").elements, voice.selected(), seed);

async function load() {
  try {
    const [served, named] = [await model(), await voices()];
    $("access").hidden = true;
    setUp(served, named);
    clearFailure();
    showStatus("Ready.");
  } catch (error) {
    handleLoadError(error);
  }
}

function setUp(served, named) {
  $("model").textContent = served.description ? `${served.id}: ${served.description}` : served.id;
  $("language").replaceChildren(...choices(["auto", ...served.languages]));
  voice.setUp(named, served, { changed: showCurl, failed: fail, kept: voiceKept });
  const designs = !served.task_types.includes("CustomVoice") && served.task_types.includes("VoiceDesign");
  if (!designs) return;
  $("manner").textContent = "Voice description";
  $("options").open = true;
}

function voiceKept(name) {
  clearFailure();
  showStatus(`The voice is kept as ${name}.`);
}

function handleLoadError(error) {
  if (error.status === 503) {
    showStatus(`Not ready yet: ${error.message}`);
    setTimeout(load, 1000 * (error.retryAfter ?? 2));
  } else if (error.status === 401 && !hasKey()) {
    askForKey();
  } else {
    fail(error);
  }
}

function askForKey() {
  $("access").hidden = false;
  $("key").focus();
  showStatus("This server requires an API key.");
}

function fail(error) {
  showFailure(error);
  if (error.status !== 401) return;
  askForKey();
  $("key").setAttribute("aria-invalid", "true");
}

async function toggle() {
  if (utterance) {
    utterance.stop();
    return;
  }
  clearFailure();
  seed = seedOf($("seed").value);
  showCurl();
  await play(speak(currentFields(), voice.reference, showStatus));
}

async function replayLast() {
  $("speak").focus(); // the Replay button disappears, and this one stops the replay
  await play(replay(last, showStatus));
}

async function play(started) {
  utterance = last = started;
  $("spoken").hidden = true;
  $("speak").textContent = "Stop";
  await utterance.ended.catch(fail);
  utterance = null;
  $("speak").textContent = "Speak";
  showSpoken();
}

/** Offer the replay and the download of the last utterance, if any audio has arrived. */
function showSpoken() {
  $("spoken").hidden = !last.spoken.seconds;
  URL.revokeObjectURL($("download").href);
  const file = last.spoken.file();
  Object.assign($("download"), { href: URL.createObjectURL(file), download: file.name });
}

function showCurl() {
  const url = new URL("v1/audio/speech", document.baseURI).href;
  const recording = voice.recording();
  $("curl").textContent = curlCommand(url, currentFields(), { keyed: hasKey(), recording });
  $("curl-hint").textContent = `${recording ? `Reads ${recording.name} and saves` : "Saves"} speech.wav.`;
  $("copy").textContent = "Copy";
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("curl").textContent);
  } catch {
    getSelection().selectAllChildren($("curl"));
    document.execCommand("copy"); // pages over plain http have no clipboard API
  }
  $("copy").textContent = "Copied";
  showStatus("The curl command was copied.");
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  toggle();
});
$("form").addEventListener("input", () => {
  $("speed-shown").textContent = Number($("speed").value).toFixed(2);
  showCurl();
});
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey($("key").value);
  showCurl();
  load();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") utterance?.stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !utterance) $("form").requestSubmit();
});
$("copy").addEventListener("click", copy);
$("replay").addEventListener("click", replayLast);
showCurl();
load();

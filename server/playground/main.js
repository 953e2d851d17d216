// The page: what is asked for, what is heard, and what is told of both.

import { hasKey, model, useKey, voices } from "./api.js";
import { curlLine } from "./curl.js";
import { clearFailure, showFailure } from "./failure.js";
import { $, choices } from "./page.js";
import { fields, seedOf } from "./request.js";
import { speak } from "./speaking.js";
import * as voice from "./voices.js";

let seed = null;
let utterance = null;

const tell = (text) => ($("status").textContent = text);
const currentFields = () => fields($("form").elements, voice.chosen(), seed);

async function load() {
  try {
    const [served, named] = [await model(), await voices()];
    $("access").hidden = true;
    offer(served, named);
    clearFailure();
    tell("Ready.");
  } catch (error) {
    notLoaded(error);
  }
}

function offer(served, named) {
  $("model").textContent = served.description ? `${served.id}: ${served.description}` : served.id;
  $("language").replaceChildren(...choices(["auto", ...served.languages]));
  voice.offer(named, served, { changed: showCurl, failed: fail });
  const designs = !served.task_types.includes("CustomVoice") && served.task_types.includes("VoiceDesign");
  if (!designs) return;
  $("manner").textContent = "The voice, described";
  $("options").open = true;
}

function notLoaded(error) {
  if (error.status === 503) {
    tell(`Not ready yet: ${error.message}`);
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
  tell("This server asks for a key.");
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
  utterance = speak(currentFields(), voice.reference, tell);
  $("speak").textContent = "Stop";
  await utterance.over.catch(fail);
  utterance = null;
  $("speak").textContent = "Speak";
}

function showCurl() {
  const url = new URL("v1/audio/speech", document.baseURI).href;
  const recording = voice.recording();
  $("curl").textContent = curlLine(url, currentFields(), { keyed: hasKey(), recording });
  $("curl-hint").textContent = `${recording ? `Reads ${recording.name} and saves` : "Saves"} speech.wav.`;
  $("copy").textContent = "Copy";
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("curl").textContent);
  } catch {
    getSelection().selectAllChildren($("curl"));
    document.execCommand("copy"); // plain http has no clipboard
  }
  $("copy").textContent = "Copied";
  tell("The curl line is copied.");
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
showCurl();
load();

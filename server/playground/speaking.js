// One utterance, from the request to its last sample, and the figures that are shown of it.

import { newId, reasonFor, speech } from "./api.js";
import { $, seconds } from "./page.js";
import { PcmReader, Player } from "./player.js";
import { Waveform } from "./waveform.js";

const RATE = 24_000;
const FULL_SECONDS = 3;

let context = null;
const waveform = new Waveform($("waveform"));

/** Ask for `fields` and what `reference()` adds, and play it. Gives `over`, a promise that fails with an Error. */
export function speak(fields, reference, tell) {
  context ??= new AudioContext({ sampleRate: RATE });
  context.resume();
  const player = new Player(context);
  const leaving = new AbortController();
  const stop = () => {
    leaving.abort();
    player.stop();
  };
  return { stop, over: hear(fields, reference, player, leaving.signal, tell) };
}

async function hear(fields, reference, player, signal, tell) {
  tell("Waiting for the first sound.");
  waveform.clear();
  const shown = { first: null, length: 0 };
  const showing = setShowing(player, shown);
  try {
    await receive({ ...fields, ...(await reference()) }, player, signal, (samples, waited) => {
      if (shown.first === null) tell("Speaking.");
      shown.first ??= waited;
      shown.length += samples.length / RATE;
      waveform.push(samples, RATE);
    });
    await player.ended;
    tell(signal.aborted ? "Stopped." : summary(shown));
  } catch (error) {
    if (!signal.aborted) {
      player.stop();
      tell("");
      throw error;
    }
    tell("Stopped.");
  } finally {
    showing.end(signal.aborted);
    context.suspend();
  }
}

async function receive(body, player, signal, received) {
  const id = newId();
  const asked = performance.now();
  const reader = (await speech(body, id, signal)).body.getReader();
  const pcm = new PcmReader();
  for (;;) {
    const { done, value } = await reader.read().catch(async () => {
      signal.throwIfAborted();
      throw await reasonFor(id);
    });
    if (done) break;
    const samples = pcm.read(value);
    if (!samples.length) continue;
    received(samples, performance.now() - asked);
    await player.push(samples);
  }
  player.finish();
}

const summary = ({ first, length }) => `Done: ${seconds(length)} of speech, the first after ${Math.round(first)} ms.`;

function setShowing(player, shown) {
  let frame = 0;
  const show = () => {
    figures(player, shown);
    waveform.draw(player.played);
    frame = requestAnimationFrame(show);
  };
  show();
  const end = (stopped) => {
    cancelAnimationFrame(frame);
    figures(player, shown);
    waveform.draw(stopped ? player.played : Infinity, true);
  };
  return { end };
}

function figures(player, { first, length }) {
  const begun = first !== null;
  $("first").textContent = begun ? `${Math.round(first)} ms` : "–";
  $("ahead").textContent = begun ? seconds(player.ahead) : "–";
  $("ahead-bar").style.transform = `scaleX(${Math.min(1, player.ahead / FULL_SECONDS)})`;
  $("played").textContent = begun ? `${player.played.toFixed(1)} of ${length.toFixed(1)} s` : "–";
  $("gaps").textContent = begun ? player.gaps : "–";
}

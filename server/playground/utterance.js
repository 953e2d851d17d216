// One utterance: the request, the playback, and the figures on the page.

import { newId, reasonFor, speech } from "./api.js";
import { $, seconds } from "./page.js";
import { PcmReader, Player } from "./player.js";
import { Waveform } from "./waveform.js";

const RATE = 24_000;
const FULL_SECONDS = 3;

let context = null;
const waveform = new Waveform($("waveform"));

/** Request and play speech for `fields` and those of `reference()`. `ended` is a promise that rejects with an Error. */
export function speak(fields, reference, showStatus) {
  context ??= new AudioContext({ sampleRate: RATE });
  context.resume();
  const player = new Player(context);
  const aborter = new AbortController();
  const stop = () => {
    aborter.abort();
    player.stop();
  };
  return { stop, ended: play(fields, reference, player, aborter.signal, showStatus) };
}

async function play(fields, reference, player, signal, showStatus) {
  showStatus("Waiting for the first audio.");
  waveform.clear();
  const figures = { first: null, length: 0 };
  const display = startDisplay(player, figures);
  try {
    await receive({ ...fields, ...(await reference()) }, player, signal, (samples, elapsed) => {
      if (figures.first === null) showStatus("Speaking.");
      figures.first ??= elapsed;
      figures.length += samples.length / RATE;
      waveform.push(samples, RATE);
    });
    await player.ended;
    showStatus(signal.aborted ? "Stopped." : summary(figures));
  } catch (error) {
    if (!signal.aborted) {
      player.stop();
      showStatus("");
      throw error;
    }
    showStatus("Stopped.");
  } finally {
    display.end(signal.aborted);
    context.suspend();
  }
}

async function receive(body, player, signal, received) {
  const id = newId();
  const start = performance.now();
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
    received(samples, performance.now() - start);
    await player.push(samples);
  }
  player.finish();
}

const summary = ({ first, length }) => `Done: ${seconds(length)} of speech, first audio after ${Math.round(first)} ms.`;

function startDisplay(player, figures) {
  let frame = 0;
  const show = () => {
    showFigures(player, figures);
    waveform.draw(player.played);
    frame = requestAnimationFrame(show);
  };
  show();
  const end = (stopped) => {
    cancelAnimationFrame(frame);
    showFigures(player, figures);
    waveform.draw(stopped ? player.played : Infinity, true);
  };
  return { end };
}

function showFigures(player, { first, length }) {
  const started = first !== null;
  $("first").textContent = started ? `${Math.round(first)} ms` : "–";
  $("ahead").textContent = started ? seconds(player.ahead) : "–";
  $("ahead-bar").style.transform = `scaleX(${Math.min(1, player.ahead / FULL_SECONDS)})`;
  $("played").textContent = started ? `${player.played.toFixed(1)} of ${length.toFixed(1)} s` : "–";
  $("gaps").textContent = started ? player.gaps : "–";
}

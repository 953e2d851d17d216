// One utterance: the request, the playback, a replay, and the figures on the page.

import { newId, reasonFor, RequestError, speech } from "./api.js";
import { bytesOf, events } from "./events.js";
import { $, seconds } from "./page.js";
import { PcmReader, Player } from "./player.js";
import { RATE, Spoken } from "./spoken.js";
import { Waveform } from "./waveform.js";
import { Words } from "./words.js";

const FULL_SECONDS = 3;
const STREAM = { stream_format: "sse", timestamp_granularities: ["word"] };

let context = null;
const waveform = new Waveform($("waveform"));
const words = new Words($("words"));

/**
 * Request and play speech for `fields` and those of `reference()`.
 *
 * Returns `stop`, `ended` (a promise that rejects with an Error) and `spoken` (the audio that has arrived so far).
 */
export function speak(fields, reference, showStatus) {
  const spoken = new Spoken();
  const figures = { first: null, length: 0 };
  waveform.clear();
  words.clear();
  showStatus("Waiting for the first audio.");
  return start(spoken, figures, showStatus, async (player, signal) => {
    await receive({ ...fields, ...(await reference()) }, player, signal, (bytes, samples, elapsed) => {
      if (figures.first === null) showStatus("Speaking.");
      figures.first ??= elapsed;
      figures.length += samples.length / RATE;
      spoken.push(bytes);
      waveform.push(samples, RATE);
    });
  });
}

/** Play what an utterance `spoken` has said, without a request. Returns the same as `speak`. */
export function replay({ spoken, figures }, showStatus) {
  words.rewind();
  showStatus("Replaying.");
  return start(spoken, figures, showStatus, async (player, signal) => {
    const pcm = new PcmReader();
    for (const bytes of spoken.pieces) {
      if (signal.aborted) return;
      const samples = pcm.read(bytes);
      if (samples.length) await player.push(samples);
    }
  });
}

function start(spoken, figures, showStatus, feed) {
  context ??= new AudioContext({ sampleRate: RATE });
  context.resume();
  const player = new Player(context);
  const aborter = new AbortController();
  const stop = () => {
    aborter.abort();
    player.stop();
  };
  return { stop, spoken, figures, ended: play(figures, feed, player, aborter.signal, showStatus) };
}

async function play(figures, feed, player, signal, showStatus) {
  const display = startDisplay(player, figures);
  try {
    await feed(player, signal);
    player.finish();
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
  const stream = events((await speech({ ...body, ...STREAM }, id, signal)).body);
  const pcm = new PcmReader();
  for (;;) {
    const { value: event } = await stream.next().catch(() => ({}));
    signal.throwIfAborted();
    if (!event) throw await reasonFor(id); // the stream ended without an event that says so
    if (event.type === "error") throw new RequestError("The speech ended early.", { code: event.error.code ?? event.error.type, id });
    if (event.type === "speech.audio.done") return;
    if (event.type === "speech.audio.words") words.push(event.words ?? []);
    if (event.type !== "speech.audio.delta") continue;
    const bytes = bytesOf(event.audio);
    const samples = pcm.read(bytes);
    received(bytes, samples, performance.now() - start);
    if (samples.length) await player.push(samples);
  }
}

const summary = ({ first, length }) => `Done: ${seconds(length)} of speech, first audio after ${Math.round(first)} ms.`;

function startDisplay(player, figures) {
  let frame = 0;
  const show = () => {
    showFigures(player, figures);
    waveform.draw(player.played);
    words.show(player.played);
    frame = requestAnimationFrame(show);
  };
  show();
  const end = (stopped) => {
    cancelAnimationFrame(frame);
    showFigures(player, figures);
    waveform.draw(stopped ? player.played : Infinity, true);
    words.show(Infinity);
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

// One utterance: the request, the playback, and the figures on the page.

import { newId, reasonFor, RequestError, speech } from "./api.js";
import { bytesOf, events } from "./events.js";
import { $, seconds } from "./page.js";
import { PcmReader, Player } from "./player.js";
import { Waveform } from "./waveform.js";
import { Words } from "./words.js";

const RATE = 24_000;
const FULL_SECONDS = 3;
const STREAM = { stream_format: "sse", timestamp_granularities: ["word"] };

let context = null;
const waveform = new Waveform($("waveform"));
const words = new Words($("words"));

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
  words.clear();
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
  const stream = events((await speech({ ...body, ...STREAM }, id, signal)).body);
  const pcm = new PcmReader();
  for (;;) {
    const { value: event } = await stream.next().catch(() => ({}));
    signal.throwIfAborted();
    if (!event) throw await reasonFor(id); // the stream ended without an event that says so
    if (event.type === "error") throw new RequestError("The speech ended early.", { code: event.error.code ?? event.error.type, id });
    if (event.type === "speech.audio.done") break;
    if (event.type === "speech.audio.words") words.push(event.words ?? []);
    if (event.type !== "speech.audio.delta") continue;
    const samples = pcm.read(bytesOf(event.audio));
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

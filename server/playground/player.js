// Plays samples while more arrive. Uses scheduled buffers, because pages over plain http have no AudioWorklet.

const LEAD_SECONDS = 0.02;
const LEAD_AFTER_GAP_SECONDS = 0.16; // two codec frames, so that one delay does not cause several gaps
const MAX_LEAD_SECONDS = 2.56;
const MAX_AHEAD_SECONDS = 30;

/** Plays one utterance. `context` must have the samples' rate, so that pieces join without clicks. */
export class Player {
  gaps = 0;
  #context;
  #gain;
  #sources = new Set();
  #start = 0;
  #next = 0;
  #paused = 0;
  #lead = LEAD_AFTER_GAP_SECONDS;
  #complete = false;
  #resolveEnded;
  #ended;
  #resolveSpace = null;

  constructor(context) {
    this.#context = context;
    this.#gain = new GainNode(context);
    this.#gain.connect(context.destination);
    this.#ended = new Promise((resolve) => (this.#resolveEnded = resolve));
  }

  /** Resolves when everything has been played, or playback was stopped. */
  get ended() {
    return this.#ended;
  }

  /** Seconds that have arrived and not been played. */
  get ahead() {
    return Math.max(0, this.#next - this.#context.currentTime);
  }

  /** Seconds of the utterance that have been played. */
  get played() {
    if (!this.#start) return 0;
    return Math.max(0, Math.min(this.#context.currentTime, this.#next) - this.#start - this.#paused);
  }

  /** Schedule `samples` (Float32Array) after the previous ones. Resolves when more may be pushed. */
  async push(samples) {
    const { currentTime, sampleRate } = this.#context;
    if (!this.#start) this.#start = this.#next = currentTime + LEAD_SECONDS;
    if (this.#next < currentTime) this.#pause(currentTime + this.#lead);
    const buffer = new AudioBuffer({ length: samples.length, sampleRate });
    buffer.copyToChannel(samples, 0);
    this.#schedule(buffer);
    while (!this.#complete && this.ahead > MAX_AHEAD_SECONDS) await this.#untilOneEnds();
  }

  /** Declare that all samples have been pushed. */
  finish() {
    this.#complete = true;
    if (!this.#sources.size) this.#resolveEnded();
  }

  /** Stop playback at once. */
  stop() {
    this.#complete = true;
    this.#gain.disconnect();
    for (const source of this.#sources) source.stop();
    this.#resolveEnded();
    this.#resolveSpace?.();
  }

  #pause(until) {
    this.gaps += 1;
    this.#paused += until - this.#next;
    this.#next = until;
    this.#lead = Math.min(2 * this.#lead, MAX_LEAD_SECONDS); // the server is slow: wait longer, so that gaps become rare
  }

  #schedule(buffer) {
    const source = new AudioBufferSourceNode(this.#context, { buffer });
    source.connect(this.#gain);
    source.addEventListener("ended", () => this.#onEnded(source));
    this.#sources.add(source);
    source.start(this.#next);
    this.#next += buffer.duration;
  }

  #onEnded(source) {
    this.#sources.delete(source);
    source.disconnect();
    this.#resolveSpace?.();
    if (this.#complete && !this.#sources.size) this.#resolveEnded();
  }

  #untilOneEnds() {
    return new Promise((resolve) => (this.#resolveSpace = resolve));
  }
}

/** Converts bytes of signed 16-bit little-endian samples, divided anywhere, to floats. */
export class PcmReader {
  #rest = new Uint8Array(0);

  read(bytes) {
    const all = new Uint8Array(this.#rest.length + bytes.length);
    all.set(this.#rest);
    all.set(bytes, this.#rest.length);
    const size = all.length - (all.length % 2);
    this.#rest = all.slice(size);
    return Float32Array.from(new Int16Array(all.buffer, 0, size / 2), (sample) => sample / 32768);
  }
}

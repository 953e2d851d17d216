// Plays samples while more are coming. Scheduled buffers work on plain http too, where a page gets no AudioWorklet.

const LEAD_SECONDS = 0.02;
const LEAD_AFTER_GAP_SECONDS = 0.16; // two codec frames: one gap, and not one after the other
const MOST_AHEAD_SECONDS = 30;

/** One utterance. `context` must run at the samples' rate, so that pieces join without a seam. */
export class Player {
  gaps = 0;
  #context;
  #gain;
  #sources = new Set();
  #begun = 0;
  #next = 0;
  #waited = 0;
  #complete = false;
  #over;
  #ended;
  #room = null;

  constructor(context) {
    this.#context = context;
    this.#gain = new GainNode(context);
    this.#gain.connect(context.destination);
    this.#ended = new Promise((resolve) => (this.#over = resolve));
  }

  /** Settles when everything has been heard, or was stopped. */
  get ended() {
    return this.#ended;
  }

  /** Seconds that are here and not yet heard. */
  get ahead() {
    return Math.max(0, this.#next - this.#context.currentTime);
  }

  /** Seconds of the utterance that were heard. */
  get played() {
    if (!this.#begun) return 0;
    return Math.max(0, Math.min(this.#context.currentTime, this.#next) - this.#begun - this.#waited);
  }

  /** Let `samples` (Float32Array) follow what is there already. Resolves when more may come. */
  async push(samples) {
    const { currentTime, sampleRate } = this.#context;
    if (!this.#begun) this.#begun = this.#next = currentTime + LEAD_SECONDS;
    if (this.#next < currentTime) this.#bridge(currentTime + LEAD_AFTER_GAP_SECONDS);
    const buffer = new AudioBuffer({ length: samples.length, sampleRate });
    buffer.copyToChannel(samples, 0);
    this.#schedule(buffer);
    while (!this.#complete && this.ahead > MOST_AHEAD_SECONDS) await this.#untilOneIsOver();
  }

  /** Nothing more will come. */
  finish() {
    this.#complete = true;
    if (!this.#sources.size) this.#over();
  }

  /** Silence, now. */
  stop() {
    this.#complete = true;
    this.#gain.disconnect();
    for (const source of this.#sources) source.stop();
    this.#over();
    this.#room?.();
  }

  #bridge(until) {
    this.gaps += 1;
    this.#waited += until - this.#next;
    this.#next = until;
  }

  #schedule(buffer) {
    const source = new AudioBufferSourceNode(this.#context, { buffer });
    source.connect(this.#gain);
    source.addEventListener("ended", () => this.#heard(source));
    this.#sources.add(source);
    source.start(this.#next);
    this.#next += buffer.duration;
  }

  #heard(source) {
    this.#sources.delete(source);
    source.disconnect();
    this.#room?.();
    if (this.#complete && !this.#sources.size) this.#over();
  }

  #untilOneIsOver() {
    return new Promise((resolve) => (this.#room = resolve));
  }
}

/** Turns bytes of signed 16-bit little-endian samples, cut anywhere, into floats. */
export class PcmReader {
  #left = new Uint8Array(0);

  read(bytes) {
    const all = new Uint8Array(this.#left.length + bytes.length);
    all.set(this.#left);
    all.set(bytes, this.#left.length);
    const whole = all.length - (all.length % 2);
    this.#left = all.slice(whole);
    return Float32Array.from(new Int16Array(all.buffer, 0, whole / 2), (sample) => sample / 32768);
  }
}

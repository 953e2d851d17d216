// Draws the utterance as bars: the played part in full color, the rest in a pale color.

const BAR_SECONDS = 0.04;
const BAR_WIDTH = 3;
const BAR_STEP = 5;
const PLAYHEAD = 0.6;

export class Waveform {
  #canvas;
  #peaks = [];
  #filled = 0;

  constructor(canvas) {
    this.#canvas = canvas;
    new ResizeObserver(() => this.draw(Infinity, true)).observe(canvas);
  }

  clear() {
    this.#peaks = [];
    this.#filled = 0;
  }

  /** Append samples in [-1, 1]. */
  push(samples, rate) {
    const size = Math.round(rate * BAR_SECONDS);
    for (const sample of samples) {
      if (this.#filled % size === 0) this.#peaks.push(0);
      const last = this.#peaks.length - 1;
      this.#peaks[last] = Math.max(this.#peaks[last], Math.abs(sample));
      this.#filled += 1;
    }
  }

  /** Draw the part around second `played`, or with `complete` the whole utterance. */
  draw(played, complete = false) {
    const context = this.#fitCanvas();
    const columns = Math.floor(this.#canvas.clientWidth / BAR_STEP);
    const style = getComputedStyle(this.#canvas);
    const [playedColor, restColor] = ["--accent", "--wave"].map((name) => style.getPropertyValue(name));
    this.#bars(columns, played, complete).forEach(([peak, done], column) => {
      const height = Math.max(2, Math.min(1, peak * 1.15) * this.#canvas.clientHeight);
      context.fillStyle = done ? playedColor : restColor;
      context.beginPath();
      context.roundRect(column * BAR_STEP, (this.#canvas.clientHeight - height) / 2, BAR_WIDTH, height, BAR_WIDTH / 2);
      context.fill();
    });
  }

  #bars(columns, played, complete) {
    const head = played / BAR_SECONDS;
    const total = this.#peaks.length;
    const step = complete ? Math.max(1, Math.ceil(total / columns)) : 1;
    const first = complete ? 0 : Math.max(0, Math.min(Math.floor(head - columns * PLAYHEAD), total - columns));
    return Array.from({ length: columns }, (_, column) => {
      const at = first + column * step;
      const peak = this.#peaks.slice(at, at + step).reduce((a, b) => Math.max(a, b), 0);
      return [peak, at < Math.min(head, total)];
    });
  }

  #fitCanvas() {
    const { clientWidth, clientHeight } = this.#canvas;
    const scale = window.devicePixelRatio;
    const [width, height] = [Math.round(clientWidth * scale), Math.round(clientHeight * scale)];
    if (this.#canvas.width !== width || this.#canvas.height !== height) Object.assign(this.#canvas, { width, height });
    const context = this.#canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, clientWidth, clientHeight);
    return context;
  }
}

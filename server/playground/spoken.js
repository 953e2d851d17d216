// The audio of the last utterance, for replay and download.

export const RATE = 24_000;

const HEADER_BYTES = 44;

/** The 16-bit little-endian samples of an utterance. */
export class Spoken {
  #pieces = [];
  #size = 0;

  /** Append bytes of the stream. */
  push(bytes) {
    this.#pieces.push(bytes);
    this.#size += bytes.length;
  }

  get seconds() {
    return this.#size / 2 / RATE;
  }

  /** The pieces in the order in which they arrived. */
  get pieces() {
    return this.#pieces;
  }

  /** Return the audio as a WAV file. */
  file() {
    return new File([this.#header(), ...this.#pieces], "speech.wav", { type: "audio/wav" });
  }

  #header() {
    const view = new DataView(new ArrayBuffer(HEADER_BYTES));
    const text = (at, letters) => [...letters].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
    text(0, "RIFF");
    view.setUint32(4, HEADER_BYTES - 8 + this.#size, true);
    text(8, "WAVEfmt ");
    view.setUint32(16, 16, true); // size of the format chunk
    view.setUint16(20, 1, true); // PCM
    view.setUint16(22, 1, true); // channels
    view.setUint32(24, RATE, true);
    view.setUint32(28, 2 * RATE, true); // bytes per second
    view.setUint16(32, 2, true); // bytes per sample
    view.setUint16(34, 16, true); // bits per sample
    text(36, "data");
    view.setUint32(40, this.#size, true);
    return view;
  }
}

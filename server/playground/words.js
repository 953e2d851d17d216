// The spoken words, which light up as they are heard.

/** Shows words in `element`, each with the time at which it is spoken. */
export class Words {
  #element;
  #words = [];
  #next = 0;

  constructor(element) {
    this.#element = element;
  }

  clear() {
    this.#words = [];
    this.#next = 0;
    this.#element.replaceChildren();
  }

  /** Show the words from the first one again. */
  rewind() {
    for (const { span } of this.#words) span.removeAttribute("class");
    this.#next = 0;
    this.#element.scrollTop = 0;
  }

  /** Append words of the form `{ word, start, end }`, with times in seconds. */
  push(words) {
    for (const { word, start, end } of words) {
      const span = document.createElement("span");
      span.textContent = word;
      this.#element.append(span, " ");
      this.#words.push({ span, start, end });
    }
  }

  /** Light up the word that is heard at `time` seconds. */
  show(time) {
    while (this.#next < this.#words.length && this.#words[this.#next].start <= time) {
      this.#words[this.#next - 1]?.span.removeAttribute("class");
      this.#begin(this.#words[this.#next]);
      this.#next += 1;
    }
    const current = this.#words[this.#next - 1];
    if (current && time >= current.end) current.span.removeAttribute("class");
  }

  #begin({ span }) {
    span.className = "now";
    const below = span.offsetTop + span.offsetHeight - this.#element.clientHeight;
    if (below > this.#element.scrollTop || span.offsetTop < this.#element.scrollTop) this.#element.scrollTop = below;
  }
}

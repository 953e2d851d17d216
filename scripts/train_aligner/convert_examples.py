"""Converts the held-out speech of a training to the small .ogg files that benchmarks and tests read."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.lib.timed_speech import TimedSpeech, write_timed_speech


def read_examples(file: Path) -> list[TimedSpeech]:
    """Read what ``scripts.train_aligner.examples.write_examples`` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        texts, speakers, samples, starts, spans, words = (
            arrays[name] for name in ("texts", "speakers", "samples", "starts", "spans", "words")
        )
    return [
        TimedSpeech(
            str(text),
            str(speakers[index]),
            samples[starts[index] : starts[index + 1]],
            spans[words[index] : words[index + 1]],
        )
        for index, text in enumerate(texts)
    ]


def main() -> None:
    """Convert a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="examples.npz of the training")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args()
    write_timed_speech(options.out, read_examples(options.file)[: options.count])


if __name__ == "__main__":
    main()

"""Errors of word timestamps on held-out speech of the teacher, and their cost.

    python -m benchmarks.cpu.word_times [--speech FOLDER] [--weights FILE]

The errors are the distances of word starts and ends from the teacher's durations, which have a resolution of 20 ms.
The cost is the CPU time on one core per second of audio.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.lib.timed_speech import FOLDER, read_timed_speech
from server.alignment.aligner import WEIGHTS, Aligner
from server.alignment.features import RATE
from server.alignment.network import Network
from server.alignment.worker import limit_blas_threads


def main() -> None:
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, default=FOLDER, help="folder with words.jsonl")
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    limit_blas_threads()
    recordings = read_timed_speech(options.speech)
    aligner = Aligner(Network.read(options.weights))
    aligner.align(recordings[0].samples, recordings[0].text)
    began = time.thread_time()
    aligned = [aligner.align(each.samples, each.text) for each in recordings]
    cost = time.thread_time() - began
    errors = 1000 * np.concatenate(
        [
            np.array([(word.start, word.end) for word in words]) - each.times
            for words, each in zip(aligned, recordings, strict=True)
        ]
    )
    seconds = sum(len(each.samples) for each in recordings) / RATE
    print(f"{len(recordings)} utterances, {len(errors)} words, {seconds:.0f} s of audio")
    for name, column in zip(("start", "end"), np.abs(errors).T, strict=True):
        print(f"{name}: median {np.median(column):.0f} ms, 95th percentile {np.percentile(column, 95):.0f} ms")
    print(f"cost: {1000 * cost / seconds:.1f} ms per second of audio")


if __name__ == "__main__":
    main()

"""Errors of word starts and ends against the teacher's durations, with the server's own code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scripts.train_aligner.corpus import LABEL_SECONDS, Utterance
from server.alignment.aligner import Aligner


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors in milliseconds, and the cost in milliseconds of CPU time per second of audio."""

    utterances: int
    words: int
    start_median: float
    start_p95: float
    end_median: float
    end_p95: float
    start_mean: float
    end_mean: float
    cost: float

    def __str__(self) -> str:
        return (
            f"utterances={self.utterances} words={self.words} "
            f"start_ms median={self.start_median:.1f} p95={self.start_p95:.1f} mean={self.start_mean:+.1f} "
            f"end_ms median={self.end_median:.1f} p95={self.end_p95:.1f} mean={self.end_mean:+.1f} "
            f"cost_ms_per_second={self.cost:.1f}"
        )


def evaluate(aligner: Aligner, utterances: Sequence[Utterance]) -> Accuracy:
    """Return the accuracy on ``utterances``. Raises ValueError when there is none."""
    if not utterances:
        raise ValueError("no utterance to evaluate: at least one held-out text is needed")
    errors, seconds = [], 0.0
    began = time.thread_time()
    for utterance in utterances:
        times = aligner.align(utterance.samples, utterance.text)
        aligned = np.array([(word.start, word.end) for word in times])
        errors.append(1000 * (aligned - utterance.spans * LABEL_SECONDS))
        seconds += len(utterance.samples) / 24_000
    cost = 1000 * (time.thread_time() - began) / seconds
    every = np.concatenate(errors)
    size = np.abs(every)
    return Accuracy(
        len(utterances),
        len(every),
        float(np.median(size[:, 0])),
        float(np.percentile(size[:, 0], 95)),
        float(np.median(size[:, 1])),
        float(np.percentile(size[:, 1], 95)),
        float(every[:, 0].mean()),
        float(every[:, 1].mean()),
        cost,
    )

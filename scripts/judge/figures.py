"""Averages of the scores of recordings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scripts.judge.recordings import Row

RECOGNIZERS = ("moonshine", "whisper")


def corpus_wer(rows: Sequence[Row], recognizer: str) -> float | None:
    """Return all word errors divided by all words, or None without words."""
    counts = [row[recognizer] for row in rows if recognizer in row]
    words = sum(each["words"] for each in counts)
    return sum(each["errors"] for each in counts) / words if words else None


def mean(rows: Iterable[Row], name: str) -> float | None:
    """Return the mean over the rows that have the score, or None if no row has it."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else None

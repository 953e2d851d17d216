"""From the scores of recordings to the figures of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scripts.judge.recordings import Row

RECOGNISERS = ("moonshine", "whisper")


def corpus_wer(rows: Sequence[Row], recogniser: str) -> float | None:
    """All word errors over all words; None without words."""
    counted = [row[recogniser] for row in rows if recogniser in row]
    words = sum(each["words"] for each in counted)
    return sum(each["errors"] for each in counted) / words if words else None


def mean(rows: Iterable[Row], name: str) -> float | None:
    """Of the rows that have the score; None when none has."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else None

"""Joins and splits recordings of one person at pauses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from scripts.judge.sound import Samples, trim_silence

_GAP_S = 0.25
_WINDOW_S = 0.05
_PAUSE_DB = 30.0
"""A window is part of a pause if it is this much below the loudest one."""
_MIN_PAUSE_S = 0.25
_SPLIT_ABOVE_S = 12.0
_TOLERANCE = 0.15


def pauses(samples: Samples, rate: int, *, window_s: float = _WINDOW_S, shortest_s: float = _MIN_PAUSE_S) -> list[int]:
    """Return the middle of each pause of at least ``shortest_s``, as an offset into samples [n]."""
    window = round(window_s * rate)
    power = (samples[: len(samples) // window * window].reshape(-1, window) ** 2).mean(1)
    quiet = power < power.max(initial=0) * 10 ** (-_PAUSE_DB / 10)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], quiet, [False])).astype(np.int8))).reshape(-1, 2)
    return [int(begin + end) // 2 * window for begin, end in edges if (end - begin) * window_s >= shortest_s]


def split_at_pauses(samples: Samples, rate: int) -> list[Samples]:
    """Return the recording in pieces between its pauses, or whole if it is at most ``_SPLIT_ABOVE_S`` long."""
    if len(samples) <= _SPLIT_ABOVE_S * rate:
        return [trim_silence(samples, rate)]
    bounds = [0, *(cut for cut in pauses(samples, rate) if 0 < cut < len(samples)), len(samples)]
    pieces = [trim_silence(samples[begin:end], rate) for begin, end in pairwise(bounds)]
    return [piece for piece in pieces if len(piece) > _MIN_PAUSE_S * rate]


def join_pieces(pieces: Sequence[Samples], seconds: float, rate: int) -> Samples | None:
    """Return pieces in order, with short pauses between them, of about ``seconds`` in all; None if they are too short.

    A piece that would make it too long is left out.
    """
    gap = np.zeros(round(_GAP_S * rate), np.float32)
    longest = (1 + _TOLERANCE) * seconds * rate
    joined = np.zeros(0, np.float32)
    for piece in pieces:
        candidate = np.concatenate((joined, gap, piece)) if len(joined) else piece
        if len(candidate) <= longest:
            joined = candidate
        if len(joined) >= seconds * rate:
            break
    return joined if len(joined) >= (1 - _TOLERANCE) * seconds * rate else None

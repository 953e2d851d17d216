"""The best monotonic path of speech frames through the tokens of a text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_MOST = 6
"""A path advances by at most this many tokens in one frame."""
_SKIPPED_LETTER = -1.0
"""Log-probability of a letter that has no frame. A boundary without a frame costs nothing."""
_BAND = 512
"""Tokens around the current position that are considered. It bounds the memory, and is over 20 s of speech."""
_IMPOSSIBLE = np.float32(-1e30)

Array = NDArray[np.float32]


def best_path(blocks: Iterable[Array], words: NDArray[np.int64], *, to_end: bool = True) -> NDArray[np.int64]:
    """Return the token of each frame, int64 [frames].

    A path starts at the first boundary or in the first word. It never goes back, and visits every word that it passes.

    Args:
        blocks: log-probabilities [some frames, tokens] of consecutive frames.
        words: index of each token's word [tokens]; -1 for a boundary.
        to_end: whether the path must end in or after the last word. False for speech that was cut.
    """
    trellis = _Trellis(words)
    for block in blocks:
        for row in block:
            trellis.add(row)
    return trellis.path(to_end)


class _Trellis:
    """The best paths to each token of a band, and the moves that lead there."""

    def __init__(self, words: NDArray[np.int64]) -> None:
        self._words, self._costs = words, _step_costs(words)
        self._width = min(_BAND, len(words))
        self._begin = 0
        """The first token of the band."""
        self._padded = np.full(_MOST + self._width, _IMPOSSIBLE, np.float32)
        self._best = self._padded[_MOST:]
        """Log-probability of the best path to each token of the band."""
        stride = self._padded.itemsize
        self._sources = np.lib.stride_tricks.as_strided(
            self._best, (_MOST + 1, self._width), (-stride, stride), writeable=False
        )
        """[step, token]: the best path to the token that is so many steps before."""
        self._moves: list[NDArray[np.int8]] = []
        self._begins: list[int] = []

    def add(self, row: Array) -> None:
        """Extend the paths by a frame with the log-probabilities ``row`` [tokens]."""
        if self._moves:
            self._follow()
            band = slice(self._begin, self._begin + self._width)
            candidates = self._sources + self._costs[:, band]
            self._moves.append(candidates.argmax(0).astype(np.int8))
            np.add(candidates.max(0), row[band], out=self._best)
        else:
            first = np.flatnonzero(self._words == 0)
            start = slice(0, min(self._width, int(first[-1]) + 1 if len(first) else 1))
            self._best[start] = row[start]
            self._moves.append(np.zeros(self._width, np.int8))
        self._begins.append(self._begin)

    def path(self, to_end: bool) -> NDArray[np.int64]:
        """Return the token of each frame on the best path."""
        tokens = np.empty(len(self._moves), np.int64)
        token = self._end(to_end)
        for index in range(len(tokens) - 1, -1, -1):
            tokens[index] = token
            token -= int(self._moves[index][token - self._begins[index]])
        return tokens

    def _follow(self) -> None:
        """Move the band when the best path is in its last third."""
        position = int(self._best.argmax())
        if position <= self._width * 2 // 3:
            return
        shift = min(position - self._width // 3, len(self._words) - self._width - self._begin)
        if shift > 0:
            self._best[:-shift] = self._best[shift:].copy()
            self._best[-shift:] = _IMPOSSIBLE
            self._begin += shift

    def _end(self, to_end: bool) -> int:
        """Return the token at which the best path ends."""
        tokens = np.arange(self._begin, self._begin + self._width)
        ends = (self._words[tokens] == self._words.max(initial=-1)) | (tokens == len(self._words) - 1)
        allowed = ends if to_end and ends.any() else np.ones_like(ends)
        return int(tokens[np.where(allowed, self._best, -np.inf).argmax()])


def _step_costs(words: NDArray[np.int64]) -> Array:
    """Return the log-probability [_MOST + 1, tokens] of reaching each token by a step of that many tokens.

    No step passes all letters of a word.
    """
    count = len(words)
    costs = np.full((_MOST + 1, count), _IMPOSSIBLE, np.float32)
    costs[0] = 0.0
    skipped = np.concatenate([[0.0], np.cumsum(np.where(words >= 0, _SKIPPED_LETTER, 0.0))])
    boundaries = np.cumsum(words < 0)
    for step in range(1, min(_MOST, count - 1) + 1):
        target = np.arange(step, count)
        source = target - step
        passes_word = boundaries[target] - boundaries[source] > (words[source] >= 0)
        costs[step, step:] = np.where(passes_word, _IMPOSSIBLE, skipped[target] - skipped[source + 1])
    return costs

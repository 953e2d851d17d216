"""The best monotonic path of speech frames through the tokens of a text, found while the frames arrive."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MOST = 6
"""A path advances by at most this many tokens in one frame."""
_SKIPPED_LETTER = -4.0
"""Log-probability of a letter that has no frame. A boundary without a frame costs nothing."""
_BAND = 512
"""Tokens around the current position that are considered. It bounds the memory, and is over 20 s of speech."""
_PLAUSIBLE = np.float32(100.0)
"""Paths whose log-probability is lower than the best one's by more are given up when a beginning is settled.

Frames that the network reads wrong cost the right path 10 to 20 each. With 20 to 250, all words of 20 sentences by four
voices of the pocket checkpoint have the times of the best path.
"""
_IMPOSSIBLE = np.float32(-1e30)

Array = NDArray[np.float32]
Path = NDArray[np.int64]


class Viterbi:
    """The best paths to each token of a band, and the moves that lead there.

    A path starts at the first boundary or in the first word. It never goes back, and visits every word that it passes.
    """

    def __init__(self, words: NDArray[np.int64]) -> None:
        """words: index of each token's word [tokens]; -1 for a boundary."""
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
        """[step, token]: the best path to the token ``step`` positions earlier."""
        self._moves: list[NDArray[np.int8]] = []
        """For each frame that is not settled: the step that leads to each token of the band."""
        self._begins: list[int] = []
        self._started = False

    def add(self, rows: Array) -> None:
        """Extend the paths by frames with log-probabilities [frames, tokens]."""
        for row in rows:
            if self._started:
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
                self._started = True
            self._begins.append(self._begin)

    def settled(self) -> Path:
        """Return the tokens of further frames, in order, on which all plausible paths agree by now."""
        plausible = self._best > self._best.max(initial=_IMPOSSIBLE) - _PLAUSIBLE
        tokens = self._begin + np.flatnonzero(plausible)
        for index in range(len(self._moves) - 1, -1, -1):
            if len(tokens) and tokens[0] == tokens[-1]:
                self._best[~plausible] = _IMPOSSIBLE
                return self._taken(index, int(tokens[0]))
            tokens = tokens - self._moves[index][tokens - self._begins[index]]
        return np.zeros(0, np.int64)

    def rest(self, *, to_end: bool = True) -> Path:
        """Return the tokens of the frames that are left on the best path.

        to_end: whether the path must end in or after the last word. False for speech that was cut.
        """
        return self._taken(len(self._moves) - 1, self._end(to_end))

    def _taken(self, last: int, token: int) -> Path:
        """Return the path that has ``token`` in frame ``last``, from the first frame that is left, and forget it."""
        path = np.empty(last + 1, np.int64)
        for index in range(last, -1, -1):
            path[index] = token
            token -= int(self._moves[index][token - self._begins[index]])
        del self._moves[: last + 1], self._begins[: last + 1]
        return path

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
        ends &= self._best > _IMPOSSIBLE / 2
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

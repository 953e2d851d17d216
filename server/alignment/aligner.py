"""Finds when each word of a text is spoken in a recording of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from server.alignment.features import HOP, RATE, log_mel
from server.alignment.network import Network, scores
from server.alignment.timed_words import WordTime
from server.alignment.tokens import tokens_of, words_of
from server.alignment.viterbi import best_path

WEIGHTS = Path(__file__).with_name("english.npz")
LANGUAGE = "english"
"""The language that the aligner was trained for, by the checkpoint's name."""
_BLOCK = 500
"""Frames that are compared with all tokens at once, which bounds the memory."""


class Aligner:
    """Aligns English speech with its text. It has no state, so threads can share it."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def align(self, samples: NDArray[np.int16], text: str, *, complete: bool = True) -> list[WordTime]:
        """Return the words of ``text`` with their times, in order.

        samples: int16 at 24 kHz. complete: whether all of ``text`` is spoken; otherwise words that were not reached
        are left out.
        """
        words = words_of(text)
        if not words or not len(samples):
            return []
        tokens = tokens_of(words)
        frames = self._network.encode_frames(log_mel(samples))
        encoded = self._network.encode_tokens(tokens.ids)
        boundaries = tokens.words < 0
        blocks = (
            scores(frames[start : start + _BLOCK], encoded, boundaries) for start in range(0, len(frames), _BLOCK)
        )
        path = best_path(blocks, tokens.words, to_end=complete)
        return _times(words, tokens.words[path], len(samples) / RATE)


@cache
def english_aligner() -> Aligner:
    """Return the aligner with the included weights. Reads them once."""
    return Aligner(Network.read(WEIGHTS))


def _times(words: list[str], of_frames: NDArray[np.int64], seconds: float) -> list[WordTime]:
    """Return the times of ``words``. of_frames: the word of each frame, -1 for silence; ascending without silence."""
    frames = np.flatnonzero(of_frames >= 0)
    spoken, firsts, counts = np.unique(of_frames[frames], return_index=True, return_counts=True)
    frame = HOP / RATE
    return [
        WordTime(words[word], float(start * frame), min(seconds, float((end + 1) * frame)))
        for word, start, end in zip(
            spoken.tolist(), frames[firsts].tolist(), frames[firsts + counts - 1].tolist(), strict=True
        )
    ]

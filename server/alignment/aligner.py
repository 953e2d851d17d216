"""Finds when each word of a text is spoken in a recording of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from server.alignment.features import HOP, RATE
from server.alignment.fit import Fit, fit
from server.alignment.frames import FrameEncoder
from server.alignment.network import Array, Network, scores
from server.alignment.timed_words import WordTime
from server.alignment.tokens import tokens_of, words_of
from server.alignment.viterbi import Viterbi

WEIGHTS = Path(__file__).with_name("english.npz")
LANGUAGE = "english"
"""The language that the aligner was trained for, by the checkpoint's name."""
_BLOCK = 500
"""Frames that are compared with all tokens at once, which bounds the memory."""


class Aligner:
    """Aligns English speech with its text. It has no state, so threads can share it."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def start(self, text: str) -> Alignment:
        """Return the alignment of speech that arrives with ``text``."""
        return Alignment(self._network, text)

    def align(self, samples: NDArray[np.int16], text: str, *, complete: bool = True) -> list[WordTime]:
        """Return the words of ``text`` with their times, in order.

        samples: int16 at 24 kHz. complete: whether all of ``text`` is spoken; otherwise words that were not reached
        are left out.
        """
        alignment = self.start(text)
        alignment.add(samples)
        return alignment.finish(complete=complete)

    def fit(self, samples: NDArray[np.int16], text: str) -> Fit:
        """Return how well complete speech fits ``text``. samples: int16 at 24 kHz."""
        encoder = FrameEncoder(self._network)
        return fit(self._network, np.concatenate([encoder.add(samples), encoder.finish()]), text)


class Alignment:
    """The alignment of one text with its speech, which arrives in parts. Not thread-safe."""

    def __init__(self, network: Network, text: str) -> None:
        self._words = words_of(text)
        self._tokens = tokens_of(self._words)
        self._boundaries = self._tokens.words < 0
        self._encoded = network.encode_tokens(self._tokens.ids)
        self._frames = FrameEncoder(network)
        self._path = Viterbi(self._tokens.words)
        self._samples = self._settled = 0
        """Number of samples added, and of frames whose token is settled."""
        self._word, self._first = -1, 0
        """The word of the last settled frame, -1 for silence, and its first frame."""

    def add(self, samples: NDArray[np.int16]) -> None:
        """Add samples, int16 at 24 kHz."""
        self._samples += len(samples)
        if self._words:
            self._extend(self._frames.add(samples))

    def settled(self) -> list[WordTime]:
        """Return the words that have ended and whose times are certain by now, without those returned before."""
        return self._ended(self._path.settled()) if self._words else []

    def finish(self, *, complete: bool = True) -> list[WordTime]:
        """Return the words that are left, after the last sample. complete: as for ``Aligner.align``."""
        if not self._words or not self._samples:
            return []
        self._extend(self._frames.finish())
        words = self._ended(self._path.rest(to_end=complete))
        return [*words, *self._end_word()]

    def _extend(self, rows: Array) -> None:
        for start in range(0, len(rows), _BLOCK):
            self._path.add(scores(rows[start : start + _BLOCK], self._encoded, self._boundaries))

    def _ended(self, path: NDArray[np.int64]) -> list[WordTime]:
        """Return the words that end within further settled frames. path: the token of each."""
        of_frames = self._tokens.words[path]
        changes = np.flatnonzero(np.diff(of_frames, prepend=self._word))
        words = []
        for frame in changes.tolist():
            words += self._end_word(frame)
            self._word, self._first = int(of_frames[frame]), self._settled + frame
        self._settled += len(path)
        return words

    def _end_word(self, frame: int = 0) -> list[WordTime]:
        """Return the word of the frame before settled frame ``frame`` from now, if it is a word."""
        if self._word < 0:
            return []
        start, end = (number * HOP / RATE for number in (self._first, self._settled + frame))
        return [WordTime(self._words[self._word], start, min(end, self._samples / RATE))]


@cache
def english_aligner() -> Aligner:
    """Return the aligner with the included weights. Reads them once."""
    return Aligner(Network.read(WEIGHTS))

"""How well speech fits its text: words that have no speech, and speech that is no word of the text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.alignment.network import Array, Network, scores
from server.alignment.tokens import tokens_of, words_of
from server.alignment.viterbi import Viterbi

_SHORTEST_WORD = 3
"""Letters of the shortest word that is checked. A shorter one may have no frame of its own in fluent speech."""
_FRAMES_PER_LETTER = 0.8
"""A word with fewer was not spoken. In good speech of the pocket checkpoint the fastest of 7,980 words has 1.0."""
_WINDOW = 30
"""Frames of speech whose mean log-probability is measured: 0.3 s, as long as a short word."""
_FOREIGN = -6.0
"""Mean log-probability of a window below which it contains speech that is not in the text."""
_BLOCK = 500
"""Frames that are compared with all tokens at once, which bounds the memory for intermediate results."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well speech fits its text.

    Attributes:
        skipped: words that are missing in the speech.
        inserted: about how many words the speech has that are not in the text, such as those of a repeated phrase.
    """

    skipped: tuple[str, ...]
    inserted: int

    @property
    def faults(self) -> int:
        """Number of words that are missing or were added."""
        return len(self.skipped) + self.inserted


def fit(network: Network, frames: Array, text: str) -> Fit:
    """Return how well the speech with the encoded ``frames`` [n, width] fits ``text``.

    The best path through the tokens passes each word, so a word that was not spoken has one or two frames of 10 ms. A
    phrase that was repeated belongs to no token, so the path has an improbable one there.
    """
    words = words_of(text)
    if not words or not len(frames):
        return Fit((), 0)
    tokens = tokens_of(words)
    encoded, boundaries = network.encode_tokens(tokens.ids), tokens.words < 0
    blocks = [scores(frames[start : start + _BLOCK], encoded, boundaries) for start in range(0, len(frames), _BLOCK)]
    viterbi = Viterbi(tokens.words)
    for block in blocks:
        viterbi.add(block)
    path = viterbi.rest()
    of_blocks = np.split(path, range(_BLOCK, len(path), _BLOCK))
    on_path = [block[np.arange(len(part)), part] for block, part in zip(blocks, of_blocks, strict=True)]
    return Fit(_skipped(words, tokens.words, path), _inserted(np.concatenate(on_path)))


def _skipped(words: list[str], owners: NDArray[np.int64], path: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the words with too few frames. owners: index of each token's word; -1 for boundaries."""
    of_frames = owners[path]
    frames = np.bincount(of_frames[of_frames >= 0], minlength=len(words))
    letters = np.bincount(owners[owners >= 0], minlength=len(words))
    missing = (frames < _FRAMES_PER_LETTER * letters) & (letters >= _SHORTEST_WORD)
    return tuple(words[index] for index in np.flatnonzero(missing))


def _inserted(values: Array) -> int:
    """Return about how many words are in frames with improbable ``values``."""
    if len(values) < _WINDOW:
        return 0
    sums = np.cumsum(np.concatenate([[0.0], values]))
    foreign = int(np.sum((sums[_WINDOW:] - sums[:-_WINDOW]) / _WINDOW < _FOREIGN))
    return -(-foreign // _WINDOW)

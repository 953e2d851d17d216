"""Random changes of training examples, so that the talker does not depend on details that people's input lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.prompt.tokenizer import TextTokenizer

_CORRUPTED = (0.05, 0.6)
"""Least and greatest share of codes that are replaced."""


class DropoutTokenizer(TextTokenizer):
    """A tokenizer that skips merges at random (BPE-dropout, Provilkov et al., 2020).

    So the talker reads words in several spellings, and learns what the parts of a rare word sound like.
    """

    def __init__(self, folder: Path, dropout: float) -> None:
        """dropout: probability that a merge is skipped."""
        super().__init__(folder)
        self._tokenizer.model.dropout = dropout
        self._exact = TextTokenizer(folder)

    def encode(self, text: str, param: str = "input", before: str = "") -> list[int]:
        """Return token ids of ``text``. The role before the first line break keeps its usual ones."""
        role, line_break, spoken = text.partition("\n")
        if not line_break:
            return super().encode(text, param, before)
        return self._exact.encode(role + line_break, param) + (super().encode(spoken, param) if spoken else [])


def corrupt(codes: NDArray[np.int64], others: NDArray[np.int16], random: np.random.Generator) -> NDArray[np.int64]:
    """Return reference codes [n, 16] of which a random share is replaced by codes of ``others`` [m, 16].

    Each code comes from the same codebook. It stands for a recording that the codec and the talker read badly.
    """
    share = random.uniform(*_CORRUPTED)
    frames = random.integers(len(others), size=len(codes))
    replaced = random.random(codes.shape) < share
    return np.where(replaced, others[frames].astype(np.int64), codes)

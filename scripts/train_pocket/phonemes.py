"""Converts text to the teacher's phonemes, with the normalizer, lexicon and network of the package ``hibari-tts``."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.train_pocket.utterances import Accent

MAX_SYMBOLS = 500
"""Maximum phonemes of an utterance. The teacher's style vectors support 510."""


class Phonemizer:
    """Phonemizer for both accents. A sentence takes about a millisecond."""

    def __init__(self, vocabulary: Path) -> None:
        """vocabulary: the teacher's vocab.json."""
        from hibari.g2p import G2P  # only this module needs the package

        self._symbols = set(json.loads(vocabulary.read_text(encoding="utf-8")))
        self._convert = {"american": G2P(british=False), "british": G2P(british=True)}

    def __call__(self, text: str, accent: Accent) -> str | None:
        """Return the phonemes of ``text``; None if there are too many, or one is not in the teacher's vocabulary."""
        symbols = " ".join(self._convert[accent](text).split())
        known = symbols and set(symbols) <= self._symbols
        return symbols if known and len(symbols) <= MAX_SYMBOLS else None

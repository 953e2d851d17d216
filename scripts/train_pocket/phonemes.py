"""From text to the teacher's symbols, by hibari's normaliser, lexicon and network (package ``hibari-tts``)."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.train_pocket.utterances import Accent

MOST_SYMBOLS = 500
"""Below the 510 that the teacher's style vectors go to."""


class Phonemizer:
    """Both accents; a millisecond a sentence."""

    def __init__(self, vocabulary: Path) -> None:
        """``vocabulary``: the teacher's vocab.json."""
        from hibari.g2p import G2P  # a package that only the making of the plan needs

        self._symbols = set(json.loads(vocabulary.read_text(encoding="utf-8")))
        self._convert = {"american": G2P(british=False), "british": G2P(british=True)}

    def __call__(self, text: str, accent: Accent) -> str | None:
        """The symbols of ``text``; None where it has too many, or one that the teacher does not know."""
        symbols = " ".join(self._convert[accent](text).split())
        known = symbols and set(symbols) <= self._symbols
        return symbols if known and len(symbols) <= MOST_SYMBOLS else None

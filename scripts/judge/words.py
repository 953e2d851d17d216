"""Word errors, after numbers, spellings and contractions are brought to one form (Whisper's English normaliser)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import jiwer
from whisper_normalizer.english import EnglishTextNormalizer


@dataclass(frozen=True)
class WordErrors:
    """errors: words missing, wrong or too many; words: of the text that should have been said."""

    errors: int
    words: int


def word_errors(text: str, heard: str) -> WordErrors:
    """Of what a recogniser heard where ``text`` should have been said."""
    said, understood = normal(text), normal(heard)
    if not said:
        return WordErrors(len(understood.split()), 0)
    found = jiwer.process_words(said, understood)
    return WordErrors(found.substitutions + found.deletions + found.insertions, len(said.split()))


def normal(text: str) -> str:
    """Lower case, no punctuation, one spelling, digits for numbers."""
    normalised: str = _normalizer()(text)
    return normalised


@cache
def _normalizer() -> EnglishTextNormalizer:
    return EnglishTextNormalizer()

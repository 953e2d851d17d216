"""Counts word errors in texts normalized by Whisper's English normalizer: numbers, spellings, contractions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import jiwer
from whisper_normalizer.english import EnglishTextNormalizer

_SPELLED = re.compile(r"\b[a-z0-9](?: [a-z0-9])+\b")


@dataclass(frozen=True)
class WordErrors:
    """errors: deletions, substitutions and insertions. words: number of words in the expected text."""

    errors: int
    words: int


def word_errors(text: str, recognized: str) -> WordErrors:
    """Count the word errors of ``recognized`` relative to ``text``."""
    expected, actual = normalize(text), normalize(recognized)
    if not expected:
        return WordErrors(len(actual.split()), 0)
    result = jiwer.process_words(expected, actual)
    return WordErrors(result.substitutions + result.deletions + result.insertions, len(expected.split()))


def normalize(text: str) -> str:
    """Return the text in lower case, without punctuation, with one spelling, and with digits for numbers.

    Single letters and digits in a row are one word: recognizers write "H T T P" and "HTTP" for the same sounds.
    """
    normalized: str = _normalizer()(text)
    return _SPELLED.sub(lambda letters: letters[0].replace(" ", ""), normalized)


@cache
def _normalizer() -> EnglishTextNormalizer:
    return EnglishTextNormalizer()

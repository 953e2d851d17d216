"""Counts word errors in texts normalized by Whisper's English normalizer: numbers, spellings, contractions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import jiwer
from whisper_normalizer.english import EnglishTextNormalizer

from scripts.judge.spelling import join_letters, same_sounds


@dataclass(frozen=True)
class WordErrors:
    """errors: deletions, substitutions and insertions. words: number of words in the expected text."""

    errors: int
    words: int


def word_errors(text: str, recognized: str) -> WordErrors:
    """Count the word errors of ``recognized`` relative to ``text``. Words that are only joined or split are right."""
    expected, actual = normalize(text), normalize(recognized)
    if not expected:
        return WordErrors(len(actual.split()), 0)
    if same_sounds(expected, actual):
        return WordErrors(0, len(expected.split()))
    result = jiwer.process_words(expected, actual)
    return WordErrors(result.substitutions + result.deletions + result.insertions, len(expected.split()))


def normalize(text: str) -> str:
    """Return the text in lower case, without punctuation, with one spelling, and with digits for numbers.

    Single letters and digits in a row are one word: recognizers write "H T T P" and "HTTP" for the same sounds.
    """
    normalized: str = _normalizer()(text)
    return join_letters(normalized)


@cache
def _normalizer() -> EnglishTextNormalizer:
    return EnglishTextNormalizer()

"""Writes the words of a text as phonemes, so that the talker learns to read both spellings and phonemes.

The notation has one ASCII character per phoneme, because the byte-level tokenizer has no tokens for IPA. It is the
American pronunciation for all voices; British voices learn to speak it in their accent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from engine.prompt.lexicon import MARK

_NOTATION = {
    "ˈ": "1", "ˌ": "2",
    "ɡ": "g", "ɹ": "r", "j": "y", "ʤ": "j", "ʧ": "c", "ŋ": "N", "ʃ": "S", "ʒ": "Z", "θ": "T", "ð": "D", "T": "t",
    "ɾ": "t", "ʔ": "t",
    "ɪ": "I", "ᵻ": "I", "ʊ": "U", "ɛ": "e", "æ": "a", "ɑ": "A", "ɔ": "O", "ʌ": "V", "ɜ": "R", "ə": "x", "ᵊ": "x",
    "A": "E", "I": "Y", "O": "o", "W": "W", "Y": "Q",
} | {symbol: symbol for symbol in "bdfhklmnpstvwziu"}  # fmt: skip
"""The teacher's symbol for a phoneme or a stress -> its character."""
WORD = re.compile(r"(?<![^\W\d_'’])[^\W\d_]{3,}")
"""A word that can be written as phonemes."""
UNKNOWN = "-"
"""Stands for a word without phonemes."""
_PLURALS = ("ᵻz", "s", "z")
_ONE_WORD = re.compile(r"[^\w]*(?P<word>[^\W\d_]+)(?P<plural>['’]s)?[^\w]*")
_PUNCTUATION = ' ;:,.!?—…"“”()'


def notation(symbols: str) -> str | None:
    """Return the phonemes of one word in the notation; None if a symbol is not one of a word."""
    if not symbols or not set(symbols) <= _NOTATION.keys():
        return None
    return "".join(_NOTATION[symbol] for symbol in symbols)


def word_notations(text: str, tokens: Sequence[tuple[str, str]]) -> str:
    """Return the notation of each word of ``text`` that ``WORD`` matches, separated by spaces; ``UNKNOWN`` for none.

    tokens: parts of the text in their order, and the teacher's symbols for them.
    """
    found: dict[tuple[int, int], str] = {}
    end = 0
    for part, symbols in tokens:
        start = text.find(part, end)
        if start < 0:
            continue
        end = start + len(part)
        word = _ONE_WORD.fullmatch(part)
        if word:
            spoken = symbols.strip(_PUNCTUATION)
            if word["plural"]:
                spoken = next((spoken.removesuffix(each) for each in _PLURALS if spoken.endswith(each)), "")
            found[start + word.start("word"), start + word.end("word")] = notation(spoken) or UNKNOWN
    return " ".join(found.get(word.span(), UNKNOWN) for word in WORD.finditer(text))


def with_phonemes(text: str, notations: str, share: float, random: np.random.Generator) -> str:
    """Return ``text`` with phonemes instead of a random ``share`` of the words that have some.

    notations: the result of ``word_notations``.
    """
    words = list(WORD.finditer(text))
    phonemes = notations.split()
    if len(words) != len(phonemes):  # lower case can change the number of words, for instance of "İ"
        return text
    changed, end = "", 0
    for word, spoken in zip(words, phonemes, strict=True):
        if spoken != UNKNOWN and random.random() < share:
            changed += text[end : word.start()] + MARK + spoken
            end = word.end()
    return changed + text[end:]

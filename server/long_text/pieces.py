"""Pieces of text that are spoken well: sentences, the short ones joined, the long ones cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain

from server.long_text.sentences import sentences

SHORTEST, LONGEST = 20, 300
"""Weight of a piece. A voice needs some words to settle, and after half a minute it may wander."""
_WIDE = 3
"""A Chinese character, or a syllable of Korean, takes as long to say as three letters."""
_CONTEXT_SHARE = 8
"""Positions of the context for each letter of a piece: its text, its frames, and the recording of a voice."""
_CUTS = (
    re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*"""),
    re.compile(r"""[,;:–—]["'”’»)\]]*(?=\s)|[、，；：]"""),
    re.compile(r"\s"),
)
"""Where a long sentence is cut: after an inner sentence, else after a clause, else between words."""
_ABBREVIATED = re.compile(r"(?:^|[\s(\"'«„“])(?:[^\W\d_]|[A-ZÀ-Þ][a-zß-ÿ]{1,2}|\d{1,3})\.\s*$")
"""An initial, a title or an ordinal number: "M. Dupont", "Der 2. Weltkrieg". No harm where it is a sentence's end."""

_TAIL = 8
"""Characters in which such a thing ends."""


def pieces(text: str, language: str, context: int) -> Iterator[str]:
    """``text`` in order, in pieces of weight ``SHORTEST`` to ``LONGEST`` as far as can be, found as they are asked for.

    A smaller context makes them shorter. What holds neither a letter nor a digit is left out, unless there is
    nothing else. context: positions of an utterance.
    """
    longest = max(2 * SHORTEST, min(LONGEST, context // _CONTEXT_SHARE))
    said = (each for each in sentences(text, language) if len(each) < SHORTEST or _has_words(each))
    cut = chain.from_iterable(_cut(sentence, longest) for sentence in said)
    spoken = 0
    for piece in _joined(cut, longest):
        if _has_words(piece):
            spoken += 1
            yield piece.strip()
    if not spoken:
        yield text.strip()[:longest]


def weight(text: str) -> int:
    """How long ``text`` takes to say, in letters."""
    return sum(_WIDE if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def _joined(parts: Iterable[str], longest: int) -> Iterator[str]:
    held, so_far = "", 0
    for part in parts:
        more = weight(part)
        lone = so_far < SHORTEST or more < SHORTEST or _ABBREVIATED.search(held[-_TAIL:]) is not None
        if lone and so_far + more <= longest:
            held, so_far = held + part, so_far + more
            continue
        if held:
            yield held
        held, so_far = part, more
    if held:
        yield held


def _cut(sentence: str, longest: int) -> Iterator[str]:
    """Parts of about the same weight, none above ``longest``."""
    while (total := weight(sentence)) > longest:
        at = _cut_at(sentence, total / -(-total // longest), longest)
        yield sentence[:at]
        sentence = sentence[at:]
    yield sentence


def _cut_at(sentence: str, wanted: float, longest: int) -> int:
    """The index of the best cut near weight ``wanted``: at the strongest mark there is, else inside a word."""
    least, best, most = (_index_at(sentence, bound) for bound in (wanted / 2, wanted, longest))
    for marks in _CUTS:
        ends = [mark.end() for mark in marks.finditer(sentence, 0, most) if mark.end() >= least]
        if ends:
            return min(ends, key=lambda end: abs(end - best))
    return best


def _index_at(text: str, bound: float) -> int:
    """How many characters weigh at most ``bound``; at least one."""
    total = 0
    for index, letter in enumerate(text):
        total += weight(letter)
        if total > bound:
            return max(1, index)
    return len(text)

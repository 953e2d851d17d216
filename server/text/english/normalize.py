"""Normalization of English text into words. The order of the rules matters: each one sees what the ones before left."""

from __future__ import annotations

import re
from collections.abc import Iterator

from server.text.english import (
    abbreviations,
    capitals,
    code,
    dates,
    fractions,
    maths,
    money,
    paths,
    phones,
    plain_numbers,
    ranges,
    roman,
    symbols,
    tidy,
    times,
    units,
    versions,
    web,
)
from server.text.english.rules import Rule, apply

RULES: tuple[Rule, ...] = (
    *web.RULES,
    *code.RULES,
    *paths.RULES,
    *tidy.EARLY,
    *plain_numbers.FIRST,
    *abbreviations.EARLY,
    *dates.RULES,
    *times.RULES,
    *phones.RULES,
    *money.RULES,
    *plain_numbers.EARLY,
    *units.RULES,
    *versions.RULES,
    *maths.RULES,
    *fractions.RULES,
    *ranges.RULES,
    *roman.RULES,
    *abbreviations.RULES,
    *plain_numbers.RULES,
    *symbols.RULES,
    *capitals.RULES,
    *tidy.RULES,
)
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_PIECE = 1000
"""Characters that the rules see at a time, where sentences allow: it bounds the cost of text that no rule expects."""
_LONGEST_PIECE = 2000
_SENTENCE_END = re.compile(r"[.!?]['\")]*\s+(?=['\"(]?[A-Z])")


def normalize(text: str) -> str:
    """Return ``text`` in words. Paragraphs stay separated by an empty line."""
    paragraphs = (_paragraph(paragraph) for paragraph in _PARAGRAPH.split(text))
    return "\n\n".join(filter(None, paragraphs))


def _paragraph(paragraph: str) -> str:
    return tidy.finish(" ".join(filter(None, map(_words, _pieces(paragraph)))))


def _words(piece: str) -> str:
    return tidy.tidy(apply(RULES, piece))


def _pieces(text: str) -> Iterator[str]:
    """Cut a long paragraph after sentences; without any, between words; without these, anywhere."""
    start = 0
    while len(text) - start > _LONGEST_PIECE:
        ends = [match.end() for match in _SENTENCE_END.finditer(text, start + _PIECE, start + _LONGEST_PIECE)]
        end = ends[0] if ends else text.rfind(" ", start + _PIECE, start + _LONGEST_PIECE) + 1 or start + _LONGEST_PIECE
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()

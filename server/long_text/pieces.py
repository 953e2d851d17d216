"""Splits text into pieces for synthesis: it joins short sentences, cuts long ones, and says how long to pause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engine.protocol.request import EngineInfo
from server.long_text.sentences import cut, ends_inner_sentence, sentences, weight

SHORTEST = 20
"""Minimum weight of a piece where possible: a voice needs a few words to stabilize."""
CLAUSE_PAUSE, SENTENCE_PAUSE, PARAGRAPH_PAUSE = 0.22, 0.35, 0.65
"""Seconds of silence between two pieces, by what ends there."""
_CONTEXT_SHARE = 8
"""Context positions per letter of a piece, for its text, its frames and the reference recording of its voice."""
_SMALL = 3
"""A last piece of less than 1 / _SMALL of the maximum weight takes sentences from the piece before it."""
_ABBREVIATED = re.compile(r"(?:^|[\s(\"'«„“])(?:[^\W\d_]|[A-ZÀ-Þ][a-zß-ÿ]{1,2}|\d{1,3})\.\s*$")
"""An initial, a title or an ordinal number: "M. Dupont", "Der 2. Weltkrieg". A match at the real end of a sentence is
harmless."""
_EMPTY_LINES = re.compile(r"[^\S\n]*\n[^\S\n]*\n\s*")
_TAIL = 8
"""Characters at the end of a part that are searched for ``_ABBREVIATED``."""


class Piece(NamedTuple):
    """A part of a text that is synthesized as one utterance. pause: seconds of silence before it; 0 for the first."""

    text: str
    pause: float = 0.0


class _Part(NamedTuple):
    """A sentence or a part of one, with the white space after it."""

    text: str
    weight: int
    pause: float


_Group = list[_Part]
"""The parts of one piece."""


def longest_piece(info: EngineInfo) -> int:
    """Return the maximum weight of a piece: what the checkpoint speaks well, or less in a small context."""
    return max(2 * SHORTEST, min(info.profile.piece_characters, info.context // _CONTEXT_SHARE))


def pieces(text: str, language: str, longest: int, *, fill: bool) -> Iterator[Piece]:
    """Yield ``text`` in order, lazily, in pieces of weight ``SHORTEST`` to ``longest`` where possible.

    Pieces without a letter or digit are dropped; if no piece has any, one piece with the start of ``text`` remains.
    fill: a piece has as many sentences of a paragraph as fit, so that the voice changes seldom; otherwise one.
    """
    groups = _groups(_parts(text, language, longest), longest, fill=fill)
    count, pause = 0, 0.0
    for group in _balanced(groups, longest) if fill else groups:
        spoken = "".join(part.text for part in group)
        pause = max(pause, group[0].pause)
        if has_words(spoken):
            yield Piece(" ".join(spoken.split()), pause if count else 0.0)
            count, pause = count + 1, 0.0
    if not count:
        yield Piece(text.strip()[:longest])


def has_words(text: str) -> bool:
    """Return whether ``text`` has a letter or a digit."""
    return any(map(str.isalnum, text))


def in_one_paragraph(text: str) -> str:
    """Return ``text`` with a space instead of each run of empty lines: checkpoints learned single paragraphs."""
    return _EMPTY_LINES.sub(" ", text)


def ends_with_abbreviation(text: str) -> bool:
    """Return whether ``text`` ends with what may be an abbreviation or an ordinal number and not a sentence."""
    return _ABBREVIATED.search(text[-_TAIL:]) is not None


def _parts(text: str, language: str, longest: int) -> Iterator[_Part]:
    """Yield the sentences of ``text``, and parts of those above ``longest``, without long ones that have no words."""
    pause = SENTENCE_PAUSE
    for sentence in sentences(text, language):
        if len(sentence) < SHORTEST or has_words(sentence):
            for part in cut(sentence, longest):
                yield _Part(part, weight(part), pause)
                pause = SENTENCE_PAUSE if ends_inner_sentence(part) else CLAUSE_PAUSE
            pause = SENTENCE_PAUSE
        if sentence.endswith("\n"):
            pause = PARAGRAPH_PAUSE


def _groups(parts: Iterable[_Part], longest: int, *, fill: bool) -> Iterator[_Group]:
    """Yield the parts of each piece, up to the weight ``longest``."""
    group: _Group = []
    for part in parts:
        if group and (_weight([*group, part]) > longest or not _belongs(group, part, fill=fill)):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _belongs(group: _Group, part: _Part, *, fill: bool) -> bool:
    """Return whether ``part`` belongs to ``group`` if it fits."""
    if _weight(group) < SHORTEST or _abbreviated(group[-1]):
        return True
    if fill:
        return part.pause < PARAGRAPH_PAUSE
    return part.weight < SHORTEST


def _balanced(groups: Iterable[_Group], longest: int) -> Iterator[_Group]:
    """Yield ``groups``, of which small ones take parts from the one before."""
    before: _Group = []
    for group in groups:
        *ready, before = _evened(before, group, longest) if before else [group]
        yield from ready
    if before:
        yield before


def _evened(before: _Group, group: _Group, longest: int) -> list[_Group]:
    """Return the parts of two groups in one or two groups: as they are, unless the second one is small."""
    size = _weight(group)
    together = [*before, *group]
    if size < SHORTEST and _weight(together) <= longest:
        return [together]
    if size >= longest / _SMALL or group[0].pause >= PARAGRAPH_PAUSE:
        return [before, group]
    ways = [(together[:at], together[at:]) for at in range(1, len(together)) if not _abbreviated(together[at - 1])]
    fitting = [way for way in ways if max(map(_weight, way)) <= longest]
    return list(min(fitting, key=lambda way: max(map(_weight, way)), default=(before, group)))


def _weight(group: _Group) -> int:
    return sum(part.weight for part in group)


def _abbreviated(part: _Part) -> bool:
    return ends_with_abbreviation(part.text)

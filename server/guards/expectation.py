"""The range of durations that is plausible for the speech of a text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

from engine.protocol.request import SAMPLE_RATE, SAMPLES_PER_FRAME, Voice

_SPELLED = re.compile(r"\d|(?<![^\W\d_])[A-Z](?![^\W\d_])|(?<=[A-Z])[A-Z]|[A-Z](?=[A-Z])")
"""Digits, and letters that may be read by their names."""
_SPELLED_WEIGHT = 6
"""Letters in the name of a letter, a digit or a symbol, with its share of the words around it: "and", "thousand"."""
_WIDE_WEIGHT = 3
"""Weight of a wide character: a Chinese character or a Korean syllable takes as long to say as three letters."""
_FASTEST, _SLOWEST = 1.4, 1.6
"""How much faster and slower than its mean pace a voice may speak a text."""
_SHORTER_SECONDS, _LONGER_SECONDS = 0.3, 1.5
"""Added to the range, because very short texts vary most."""
_VERY_SHORT = 20
"""Characters of the longest very short text."""
_USUAL, _USUAL_SECONDS, _SPELLED_LEAST = 1.3, 0.7, 2
"""The usual range of very short texts: slowness, seconds on top, and letters for one that may be spelled."""
_PAUSE_SECONDS = 0.6
"""Longest pause at a punctuation mark."""
_PAUSES = re.compile(r"[.,;:!?…–—\n。、，；：？！]+")


class Paces(NamedTuple):
    """The slowest and the fastest mean pace of a voice, in characters per second, pauses and spaces included."""

    slowest: float
    fastest: float


def paces_of(characters_per_second: float | None, voice: Voice | None) -> Paces | None:
    """Return the paces of a checkpoint with this mean pace; None if it is unknown.

    A voice that is cloned in context may keep the pace of its recording, within a factor of two.
    """
    if characters_per_second is None:
        return None
    pace = characters_per_second
    if voice is None or voice.codes is None or voice.transcript is None or not len(voice.codes):
        return Paces(pace, pace)
    seconds = len(voice.codes) * SAMPLES_PER_FRAME / SAMPLE_RATE
    own = min(2 * pace, max(pace / 2, len(voice.transcript) / seconds))
    return Paces(min(pace, own), max(pace, own))


@dataclass(frozen=True, slots=True)
class Expectation:
    """Seconds from the first to the last speech of a text.

    shortest, longest: the least and the most that are plausible. usual: what a very short text seldom exceeds; None
    for a longer one.
    """

    shortest: float
    longest: float
    usual: float | None


def expected_speech(text: str, paces: Paces) -> Expectation:
    """Return how long ``text`` may take to say.

    A symbol, a digit or a capital letter may be silent or take as long as a word, depending on how it is read. The
    lower bound takes each for a letter or for nothing, the upper bound for a word.
    """
    letters = symbols = spaces = wide = 0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF":
            wide += character.isalnum()
        elif character.isalnum():
            letters += 1
        elif character.isspace():
            spaces += 1
        elif unicodedata.category(character)[0] == "S" or character in "@#%&*/\\":
            symbols += 1
    least = letters + spaces + wide * _WIDE_WEIGHT
    spelled = symbols + len(_SPELLED.findall(text))
    most = least + spelled * _SPELLED_WEIGHT
    pauses = len(_PAUSES.findall(text)) * _PAUSE_SECONDS
    usual = None
    if is_very_short(text):
        usual = (least + spelled * _SPELLED_LEAST) / paces.slowest * _USUAL + _USUAL_SECONDS
    return Expectation(
        max(0.0, least / paces.fastest / _FASTEST - _SHORTER_SECONDS),
        most / paces.slowest * _SLOWEST + pauses + _LONGER_SECONDS,
        usual,
    )


def is_very_short(text: str) -> bool:
    """Return whether ``text`` is so short that a voice may not stabilize, and tends to go on after its end."""
    return len(text) <= _VERY_SHORT

"""Private-use characters that carry facts through the steps: pauses, code and pronunciations. Never in the output."""

from __future__ import annotations

from server.text.patterns import lazy

CODE_START, CODE_END = "\ue000", "\ue001"
"""Enclose a fragment of program code that markup quoted."""
_PAUSES = 0xF0000
"""Code point of a pause of 0 ms; a pause of n ms is n code points further."""
_WORDS = 0x100000
"""Code point of the first replaced word."""
LONGEST_PAUSE_S = 10.0
MOST_WORDS = 0xFFF0
PAUSE = lazy(r"[\U000f0000-\U000fffff]")
WORD = lazy(r"[\U00100000-\U0010ffff]")
RESERVED = lazy(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ue000-\uf8ff\U000f0000-\U0010ffff]")
"""All private-use and control characters: text from outside loses them before the first step."""


def pause(seconds: float) -> str:
    """Return the mark of a pause, of 0 to ``LONGEST_PAUSE_S``."""
    return chr(_PAUSES + round(1000 * min(max(seconds, 0.0), LONGEST_PAUSE_S)))


def pause_seconds(mark: str) -> float:
    """Return the length of the pause that ``mark`` stands for."""
    return (ord(mark) - _PAUSES) / 1000


def word(index: int) -> str:
    """Return the mark of the replaced word ``index``."""
    return chr(_WORDS + index)


def word_index(mark: str) -> int:
    """Return the index of the replaced word that ``mark`` stands for."""
    return ord(mark) - _WORDS

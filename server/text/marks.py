"""Private-use characters that mark pauses, code and pronunciations between the steps. They are never in the output."""

from __future__ import annotations

from server.text.patterns import lazy

CODE_START, CODE_END = "\ue000", "\ue001"
"""Enclose program code that was quoted in the markup."""
FORMULA_START, FORMULA_END = "\ue002", "\ue003"
"""Enclose a formula in LaTeX."""
SENTENCE_END = "\ue004"
"""Ends a sentence, even after an abbreviation: after a list item, or a line that is a sentence."""
_PAUSES = 0xF0000
"""Code point of a pause of 0 ms. A pause of n ms has this code point plus n."""
_WORDS, _NAMES = 0x100000, 0x108000
"""Code points of replaced word 0, without and with a capital at its beginning. Word n has this code point plus n."""
LONGEST_PAUSE_S = 10.0
MOST_WORDS = 0x7FF0
PAUSE = lazy(r"[\U000f0000-\U000fffff]")
NAMES = "\U00108000-\U0010ffff"
"""The marks of replaced words that begin with a capital, for a set of characters in a pattern."""
WORD = lazy(r"[\U00100000-\U0010ffff]")
RESERVED = lazy(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ue000-\uf8ff\U000f0000-\U0010ffff]")
"""All private-use and control characters: text from outside loses them before the first step."""


def pause(seconds: float) -> str:
    """Return the mark of a pause. ``seconds`` is limited to 0 to ``LONGEST_PAUSE_S``."""
    return chr(_PAUSES + round(1000 * min(max(seconds, 0.0), LONGEST_PAUSE_S)))


def pause_seconds(mark: str) -> float:
    """Return the length of the pause that ``mark`` stands for."""
    return (ord(mark) - _PAUSES) / 1000


def word(index: int, *, capital: bool) -> str:
    """Return the mark of the replaced word ``index``. capital: whether it begins with a capital in the text."""
    return chr((_NAMES if capital else _WORDS) + index)


def word_index(mark: str) -> int:
    """Return the index of the replaced word that ``mark`` stands for."""
    return ord(mark) - (_NAMES if ord(mark) >= _NAMES else _WORDS)

"""Rules: a pattern, and what a match of it is spoken as."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Speak = Callable[["re.Match[str]"], str]


class Rule:
    """Replaces each match of a pattern by what ``speak`` returns for it.

    needs: the rule runs only on a text with one of these characters, which must be characters that no rule puts in.
    "0" stands for any digit, "A" for two capitals in a row. Empty: always. It keeps plain sentences cheap, and never
    changes the result.
    """

    __slots__ = ("_compiled", "_flags", "_pattern", "needs", "speak")

    def __init__(self, pattern: str, speak: Speak | str, needs: str, flags: int) -> None:
        self._pattern, self._flags = pattern, flags
        self._compiled: re.Pattern[str] | None = None
        self.speak, self.needs = speak, needs

    def compile(self) -> re.Pattern[str]:
        """Return the compiled pattern. Compiled when first used: all of them would take most of a second to import."""
        if self._compiled is None:
            self._compiled = re.compile(self._pattern, self._flags)
        return self._compiled


def rule(pattern: str, speak: Speak | str, needs: str = "0", *, ignore_case: bool = False) -> Rule:
    """Return a rule. The pattern is verbose: white space must be written as ``\\s`` or ``[ ]``."""
    return Rule(pattern, speak, needs, re.VERBOSE | (re.IGNORECASE if ignore_case else 0))


def alternatives(words: Iterable[str]) -> str:
    """Return a regular expression for any of ``words``, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


_DIGIT = re.compile(r"\d")
_CAPITALS = re.compile(r"[A-Z]{2}")


def apply(rules: Iterable[Rule], text: str) -> str:
    """Return ``text`` after all ``rules`` in order."""
    seen: dict[str, bool] = {}
    for each in rules:
        if not each.needs or _has_any(each.needs, text, seen):
            text = each.compile().sub(each.speak, text)
    return text


def _has_any(needs: str, text: str, seen: dict[str, bool]) -> bool:
    """Return whether ``text`` has a character of ``needs``; ``seen`` remembers what was looked for."""
    for character in needs:
        if character not in seen:
            if character == "0":
                seen[character] = _DIGIT.search(text) is not None
            elif character == "A":
                seen[character] = _CAPITALS.search(text) is not None
            else:
                seen[character] = character in text
        if seen[character]:
            return True
    return False

"""Rules: a pattern, what a match of it is spoken as, and what a text must contain for the rule to be tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Speak = Callable[["re.Match[str]"], str]
Needs = str | tuple[str, ...] | frozenset[str]


class Lazy:
    """A regular expression that is compiled when first used: all of them would take too long at import."""

    __slots__ = ("_compiled", "_flags", "_pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags
        self._compiled: re.Pattern[str] | None = None

    def compile(self) -> re.Pattern[str]:
        """Return the compiled expression."""
        if self._compiled is None:
            self._compiled = re.compile(self._pattern, self._flags)
        return self._compiled


FEATURES = {
    "digit": Lazy(r"\d"),
    "two digits": Lazy(r"\d\d"),
    "three digits": Lazy(r"\d\d\d"),
    "digit-": Lazy(r"\d[^\W\d]{0,3}\.?[ ]?[-–—]"),
    "-digit": Lazy(r"[-–+−±~][$€£]?[.\d]"),
    "digit/": Lazy(r"\d/\d"),
    "digit.": Lazy(r"\d\.\d"),
    "digit:": Lazy(r"\d:\d"),
    "digit unit": Lazy(r"[\d½⅓⅔¼¾⅛⅜⅝⅞][ -]?[^\W\d]"),
    "digit letter": Lazy(r"\d[^\W\d_]"),
    "letter digit": Lazy(r"[^\W\d_]['-]?\d"),
    "digit mark": Lazy(r"[\d)][\"'′″]"),
    "digit space digit": Lazy(r"\d[ .\-)]+\d"),
    "capitals": Lazy(r"[A-Z]{2}"),
    "hump": Lazy(r"[a-z][A-Z]"),
    "dotted": Lazy(r"\w\.[\w/]"),
    "initial": Lazy(r"\b[A-Z]\."),
    "roman": Lazy(r"\b(?:[VXL]|I[IVX]|M[CDMXLVI])[IVXLCDM]*\b"),
    "operator": Lazy(r"[=*×·⋅÷<>≤≥≠≈±≡∝+√]|[^\W_][ ][-−–/x%][ ]|\d[-−/x][\d(√]"),
    "symbol": Lazy(r"[^\w\s.,?!;:'\"\-()]"),
    "call": Lazy(r"\w[(\[]"),
}
"""What texts may contain. A rule that needs a feature is not tried on a text without it."""
_WORD = re.compile(r"[A-Za-z]+")


class Rule:
    """Replaces each match of a pattern by what ``speak`` returns for it.

    needs: any of these has to be in the text before the first rule: names in ``FEATURES`` or literal text, or, as a set,
    words in lower case. Empty: the rule is always tried. It keeps plain sentences cheap and never changes the result.
    """

    __slots__ = ("_lazy", "needs", "speak", "words")

    def __init__(self, pattern: str, speak: Speak | str, needs: Needs, flags: int) -> None:
        self._lazy = Lazy(pattern, flags)
        self.speak = speak
        self.words = needs if isinstance(needs, frozenset) else None
        self.needs = (needs,) if isinstance(needs, str) and needs else tuple(needs)

    def apply(self, text: str) -> str:
        """Return ``text`` with every match replaced."""
        return self._lazy.compile().sub(self.speak, text)

    def compile(self) -> None:
        """Compile the pattern now."""
        self._lazy.compile()


def rule(pattern: str, speak: Speak | str, needs: Needs = "digit", *, ignore_case: bool = False) -> Rule:
    """Return a rule. The pattern is verbose: white space must be written as ``\\s`` or ``[ ]``."""
    return Rule(pattern, speak, needs, re.VERBOSE | (re.IGNORECASE if ignore_case else 0))


def first_words(entries: Iterable[str]) -> frozenset[str]:
    """Return the first run of letters of each entry in lower case: what a rule for these entries needs."""
    return frozenset(match[0].lower() for match in map(_WORD.search, entries) if match)


def alternatives(words: Iterable[str]) -> str:
    """Return a regular expression for any of ``words``, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


def apply(rules: Iterable[Rule], text: str) -> str:
    """Return ``text`` after all ``rules`` in order."""
    view = _View(text)
    for each in rules:
        if view.meets(each):
            text = each.apply(text)
    return text


class _View:
    """What is in a text before the first rule, looked for when a rule asks."""

    __slots__ = ("_found", "_text", "_words")

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[str, bool] = {}
        self._words: frozenset[str] | None = None

    def meets(self, rule: Rule) -> bool:
        if rule.words is not None:
            if self._words is None:
                self._words = frozenset(_WORD.findall(self._text.lower()))
            return not self._words.isdisjoint(rule.words)
        return not rule.needs or any(map(self._has, rule.needs))

    def _has(self, need: str) -> bool:
        found = self._found.get(need)
        if found is None:
            feature = FEATURES.get(need)
            found = need in self._text if feature is None else feature.compile().search(self._text) is not None
            self._found[need] = found
        return found

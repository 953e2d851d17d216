"""Rules: a pattern, what a match of it is spoken as, and what a text must contain for the rule to be tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

Speak = Callable[["re.Match[str]"], str]


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
    "ordinal digit": Lazy(r"\d(?:st|nd|rd|th|ST|ND|RD|TH|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)"),
    "digit x": Lazy(r"\d[ ]?[x×]"),
    "digit G": Lazy(r"\d[GD]"),
    "digit e": Lazy(r"\d[eE]"),
    "digit p": Lazy(r"\d[pi]\b"),
    "digit A": Lazy(r"\d[A-D]\b"),
    "digit K": Lazy(r"\d(?:[KkMB]|bn)"),
    "digit am": Lazy(r"\d[ ]?[AaPp]\.?[ ]?[Mm]"),
    "digit h": Lazy(r"\d[ ]?[dhm]"),
    "digit %": Lazy(r"\d[ ]?[%‰p]"),
    "digit +": Lazy(r"\d\+"),
    "point digit": Lazy(r"\.\d"),
    "masked": Lazy(r"[xX*•]{2}[ -]?\d"),
    "digit direction": Lazy(r"\d [NSEW]\b"),
    "digit zip": Lazy(r"[A-Z]{2} \d{5}"),
    "quoted digit": Lazy(r"'\d\d"),
    "symbol": Lazy(r"[^\w\s.,?!;:'\"\-()]"),
    "call": Lazy(r"\w[(\[]"),
}
"""What texts may contain. A rule that needs a feature is not tried on a text without it."""
_WORD = re.compile(r"[A-Za-z]+")
_DIGIT = re.compile(r"[\d½⅓⅔¼¾⅛⅜⅝⅞]")


class Rule:
    """Replaces each match of a pattern by what ``speak`` returns for it.

    needs: a necessary condition, so that plain sentences are cheap: any of these has to be in the text before the first
    rule. A name in ``FEATURES``, literal text, or a word in lower case.
    """

    __slots__ = ("_lazy", "needs", "speak")

    def __init__(self, pattern: str, speak: Speak | str, needs: Iterable[str], flags: int) -> None:
        self._lazy = Lazy(pattern, flags)
        self.speak = speak
        self.needs = tuple(needs)

    def apply(self, text: str) -> str:
        """Return ``text`` with every match replaced."""
        return self._lazy.compile().sub(self.speak, text)

    def compile(self) -> None:
        """Compile the pattern now."""
        self._lazy.compile()


def rule(pattern: str, speak: Speak | str, needs: str | Iterable[str] = "digit", *, ignore_case: bool = False) -> Rule:
    """Return a rule. The pattern is verbose: a space in it must be written as ``[ ]``."""
    return Rule(
        pattern,
        speak,
        (needs,) if isinstance(needs, str) else needs,
        re.VERBOSE | (re.IGNORECASE if ignore_case else 0),
    )


def first_words(entries: Iterable[str]) -> frozenset[str]:
    """Return what a rule for these entries needs: the first word of each, or the whole entry if that is one letter."""
    found = ((_WORD.search(entry), entry) for entry in entries)
    return frozenset(match[0].lower() if len(match[0]) > 1 else entry for match, entry in found if match)


def alternatives(words: Iterable[str]) -> str:
    """Return a regular expression for any of ``words``, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


class Rules:
    """Rules that run one after the other."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules
        self._by_need: dict[str, list[int]] = {}
        for index, each in enumerate(rules):
            for need in each.needs:
                self._by_need.setdefault(need, []).append(index)
        # One character and one word are found in sets; only longer literals are searched for.
        self._literals = [
            need
            for need in self._by_need
            if len(need) > 1 and need not in FEATURES and not (need.isalpha() and need.islower())
        ]
        self._features = [need for need in FEATURES if need in self._by_need and "digit" not in need]
        self._digit_features = [need for need in FEATURES if need in self._by_need and "digit" in need]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def apply(self, text: str) -> str:
        """Return ``text`` after all rules in order."""
        for index in sorted(self._wanted(text)):
            text = self._rules[index].apply(text)
        return text

    def _wanted(self, text: str) -> set[int]:
        """Return the indices of the rules whose needs are in ``text``."""
        found = {*text, *_WORD.findall(text.lower())}
        found.update(need for need in self._literals if need in text)
        found.update(need for need in self._features if FEATURES[need].compile().search(text))
        if _DIGIT.search(text):
            found.update(need for need in self._digit_features if FEATURES[need].compile().search(text))
        wanted: set[int] = set()
        for need in self._by_need.keys() & found:
            wanted.update(self._by_need[need])
        return wanted

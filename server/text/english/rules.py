"""Normalization rules: a pattern, its replacement, and what a text must contain for the rule to be tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from server.text.patterns import lazy

Speak = Callable[["re.Match[str]"], str]


FEATURES = {
    "digit": lazy(r"\d"),
    "two digits": lazy(r"\d\d"),
    "three digits": lazy(r"\d\d\d"),
    "lone digit": lazy(r"(?<![\w.,$€£:/-])[24](?![.,:/%-]?\w)"),
    "digit-": lazy(r"\d[^\W\d]{0,3}\.?[ ]?[-–—]"),
    "-digit": lazy(r"[-–+−±~][$€£]?[.\d]"),
    "digit/": lazy(r"\d/\d"),
    "unit-digit": lazy(r"[A-Za-z][-–]\d"),
    "unit/digit": lazy(r"/[ ]?[\d½¼¾⅓⅔]"),
    "digit,digit": lazy(r"\d,\d"),
    "digit.": lazy(r"\d\.\d"),
    "digit:": lazy(r"\d:\d"),
    "digit unit": lazy(r"[\d½⅓⅔¼¾⅛⅜⅝⅞][ -]?[^\W\d]"),
    "digit letter": lazy(r"\d[^\W\d_]"),
    "letter digit": lazy(r"\d(?:(?<=[^\W\d_]\d)|(?<=[^\W\d_]['-]\d))"),
    "digit mark": lazy(r"[\d)][\"'′″]"),
    "digit space digit": lazy(r"\d[ .\-)]+\d"),
    "capitals": lazy(r"[A-Z]{2}"),
    "hump": lazy(r"[a-z][A-Z]"),
    "dotted": lazy(r"\w\.[\w/]"),
    "comma capitals": lazy(r", [A-Z]{2}"),
    "subsection": lazy(r"\((?:[a-z]{1,4}|\d{1,2})\)"),
    "initial": lazy(r"\b[A-Z]\."),
    "lone letter": lazy(r"(?<![\w'.])[bcrwyCYR](?![\w'.])"),
    "roman": lazy(r"\b(?:[VXL]|I[IVX]|M[CDMXLVI])[IVXLCDM]*\b"),
    "operator": lazy(r"[=*×·⋅÷<>≤≥≠≈±≡∝+√]|[^\W_][ ][-−–/x%][ ]|\d[-−/x][\d(√]"),
    "ordinal digit": lazy(r"\d(?:st|nd|rd|th|ST|ND|RD|TH|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)"),
    "digit x": lazy(r"\d[ ]?[x×]"),
    "digit C": lazy(r"\d[ ]?[CF]\b"),
    "digit a": lazy(r"\d[apAP](?!\w)"),
    "digit st": lazy(r"\d[ ]?st"),
    "zero digits": lazy(r"(?<!\w)0\d{3}"),
    "jet digits": lazy(r"7\d7|A[23]\d\d"),
    "digit G": lazy(r"\d[GD]"),
    "digit e": lazy(r"\d[eE]"),
    "digit p": lazy(r"\d[pi]\b"),
    "digit c": lazy(r"\dc\b"),
    "digit A": lazy(r"\d[A-D]\b"),
    "digit K": lazy(r"\d(?:[KkMB]|bn)"),
    "digit am": lazy(r"\d[ ]?[AaPp]\.?[ ]?[Mm]"),
    "digit h": lazy(r"\d[ ]?[dhm]"),
    "digit %": lazy(r"\d[ ]?[%‰p]"),
    "digit +": lazy(r"\d\+"),
    "point digit": lazy(r"\.\d"),
    "masked": lazy(r"[xX*•]{2}[ -]?\d"),
    "digit direction": lazy(r"\d [NSEW]\b"),
    "digit zip": lazy(r"[A-Z]{2} \d{5}"),
    "quoted digit": lazy(r"'\d\d"),
    "symbol": lazy(r"[^\w\s.,?!;:'\"\-()]"),
    "call": lazy(r"\w[(\[]"),
}
"""Cheap tests of a text. A rule that needs a feature is not tried on a text without it."""
_WORD = lazy(r"[A-Za-z]+")
_DIGIT = lazy(r"[\d½⅓⅔¼¾⅛⅜⅝⅞]")


class Rule:
    """Replaces each match of a pattern by the result of ``speak``.

    needs: the rule is skipped unless the text contains one of these, so that plain sentences are cheap. Each is a name
    in ``FEATURES``, literal text, or a word in lower case. They are looked up in the text before the first rule runs.
    """

    __slots__ = ("needs", "pattern", "speak")

    def __init__(self, pattern: str, speak: Speak | str, needs: Iterable[str], flags: int) -> None:
        self.pattern = lazy(pattern, flags)
        self.speak = speak
        self.needs = tuple(needs)

    def apply(self, text: str) -> str:
        """Return ``text`` with every match replaced."""
        return self.pattern.sub(self.speak, text)


def rule(pattern: str, speak: Speak | str, needs: str | Iterable[str] = "digit", *, ignore_case: bool = False) -> Rule:
    """Return a rule. The pattern is verbose: a space in it must be written as ``[ ]``."""
    return Rule(
        pattern,
        speak,
        (needs,) if isinstance(needs, str) else needs,
        re.VERBOSE | (re.IGNORECASE if ignore_case else 0),
    )


def first_words(entries: Iterable[str]) -> frozenset[str]:
    """Return ``needs`` of a rule for ``entries``: the first word of each, or the entry itself if that is one letter."""
    found = ((_WORD.search(entry), entry) for entry in entries)
    return frozenset(match[0].lower() if len(match[0]) > 1 else entry for match, entry in found if match)


def alternatives(words: Iterable[str]) -> str:
    """Return a regular expression for any of ``words``, the longest first.

    Words are grouped by their first character, so that few of them are tried at each position.
    """
    groups: dict[str, list[str]] = {}
    for word in sorted(set(words), key=lambda word: (-len(word), word)):
        groups.setdefault(word[0], []).append(re.escape(word[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())


class Rules:
    """Rules that run one after the other."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules
        self._by_need: dict[str, list[int]] = {}
        for index, each in enumerate(rules):
            for need in each.needs:
                self._by_need.setdefault(need, []).append(index)
        # Single characters and words are looked up in a set; other literals are searched for.
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
        found.update(need for need in self._features if FEATURES[need].search(text))
        if _DIGIT.search(text):
            found.update(need for need in self._digit_features if FEATURES[need].search(text))
        wanted: set[int] = set()
        for need in self._by_need.keys() & found:
            wanted.update(self._by_need[need])
        return wanted

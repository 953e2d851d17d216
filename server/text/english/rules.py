"""Normalization rules: a pattern, its replacement, and what a text must contain for the rule to be tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Set
from functools import lru_cache
from itertools import chain
from operator import add

from server.text.patterns import lazy

Speak = Callable[["re.Match[str]"], str]


FEATURES = {
    "digit": lazy(r"\d"),
    "lone digit": lazy(r"[24](?<![\w.,$€£:/-].)[ ]"),
    "lone digit 2": lazy(r" 2(?=[.!?,]*(?: |$))"),
    "digit-": lazy(r"\d[^\W\d]{0,3}\.?[ ]?[-–—]"),
    "-digit": lazy(r"[-–+−±~][$€£]?[.\d]"),
    "unit-digit": lazy(r"[-–]\d(?<=[A-Za-z]..)"),
    "digit a": lazy(r"\d[apAP](?!\w)"),
    "digit unit": lazy(r"[\d½⅓⅔¼¾⅛⅜⅝⅞][ -]?[^\W\d]"),
    "digit letter": lazy(r"\d[^\W\d_]"),
    "letter digit": lazy(r"\d(?:(?<=[^\W\d_]\d)|(?<=[^\W\d_]['-]\d))"),
    "capitals": lazy(r"[A-Z]{2}"),
    "hump": lazy(r"[A-Z](?<=[a-z].)"),
    "comma capitals": lazy(r", [A-Z]{2}"),
    "subsection": lazy(r"\((?:[a-z]{1,4}|\d{1,2})\)"),
    "dotted words": lazy(r"\.[A-Za-z_]\w(?<=\w\w...)"),
    "byte": lazy(r"[:-][0-9A-Fa-f]{2}[:-]"),
    "two colons": lazy(r":[0-9A-Fa-f]{0,4}:"),
    "initial": lazy(r"[A-Z]\.(?<=\b..)"),
    "lone letter": lazy(r"[bcrwyCYR](?<![\w'.].)(?![\w'.])"),
    "roman": lazy(r"[VXLIM](?<=\b.)(?:(?<=[VXL])|(?<=I)[IVX]|(?<=M)[CDMXLVI])[IVXLCDM]*\b"),
    "operator": lazy(r"[-−–/x%](?:(?<=[^\W_][ ].)[ ]|(?<=\d[-−/x])[\d(√])"),
    "zero digits": lazy(r"0\d{3}(?<![^\s@]....)"),
    "letter thrice": lazy(r"([A-Za-z])\1\1"),
    "call": lazy(r"[(\[](?<=\w.)"),
}
"""Cheap tests of a text. A rule that needs a feature is not tried on a text without it.

Each pattern begins with a character or a set of characters, because ``re`` skips all others fast. A lookbehind at the
beginning would be tried at every character; here it follows the first character, which it includes.
"""


def beside(before: str, after: str, *, spaced: bool = True) -> tuple[str, ...]:
    r"""Return ``needs`` for a digit before any of the characters ``after``, or after any of those ``before``.

    spaced: also with a space between the two.
    """
    spaces = ("", " ") if spaced else ("",)
    return (
        *(rf"{each}{space}\d" for each in before for space in spaces),
        *(rf"\d{space}{each}" for each in after for space in spaces),
    )


_BESIDE_DIGITS = {
    "digit/": (r"\d/\d",),
    "digit,digit": (r"\d,\d",),
    "digit.": (r"\d.\d",),
    "digit:": (r"\d:\d",),
    "digit mark": (*beside("", "\"'′″", spaced=False), *(f"){each}" for each in "\"'′″")),
    "ordinal digit": [rf"\d{each}" for each in "st nd rd th ST ND RD TH ˢᵗ ⁿᵈ ʳᵈ ᵗʰ".split()],
    "digit x": beside("", "x×"),
    "digit C": beside("", "CF"),
    "digit st": beside("", "s"),
    "digit G": beside("", "GD", spaced=False),
    "digit e": beside("", "eE", spaced=False),
    "digit p": beside("", "pi", spaced=False),
    "digit c": beside("", "c", spaced=False),
    "digit A": beside("", "ABCD", spaced=False),
    "digit K": beside("", "KkMBb", spaced=False),
    "digit am": beside("", "AaPp"),
    "digit h": beside("", "dhm"),
    "digit %": beside("", "%‰p"),
    "digit +": (r"\d+",),
    "point digit": (r".\d",),
    "digit direction": beside("", "NSEW"),
    "quoted digit": (r"'\d",),
    "unit/digit": beside("/", ""),  # a fraction such as ½ counts as a digit
}
"""Name -> the needs it stands for: digits beside certain characters."""
_WORD = lazy(r"[A-Za-z]+")
_DIGIT = lazy(r"[\d½⅓⅔¼¾⅛⅜⅝⅞]")
_ANY_DIGIT = "\0"
"""Replaces every digit, so that needs can name any digit."""
_COMMON = (" ", _ANY_DIGIT)
"""Characters other than letters that many texts contain."""


class Rule:
    r"""Replaces each match of a pattern by the result of ``speak``.

    needs: the rule is skipped unless the text contains one of these, so that plain sentences are cheap. Each is a name
    in ``FEATURES`` or ``_BESIDE_DIGITS``, a word in lower case, or literal text, where ``\d`` is any digit. They are
    looked up in the text before the first rule runs.
    """

    __slots__ = ("needs", "pattern", "speak")

    def __init__(self, pattern: str, speak: Speak | str, needs: Iterable[str], flags: int) -> None:
        self.pattern = lazy(pattern, flags)
        self.speak = speak
        self.needs = tuple(chain.from_iterable(_BESIDE_DIGITS.get(need, (need,)) for need in needs))

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
        self._literals: dict[str, list[tuple[str, str]]] = {}
        """Pair of characters, with digits replaced -> literals that contain it, each with the need it stands for."""
        for need in self._by_need:
            if len(need) > 1 and need not in FEATURES and not (need.isalpha() and need.islower()):
                literal = need.replace(r"\d", _ANY_DIGIT)
                self._literals.setdefault(_rarest_pair(literal), []).append((literal, need))
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
        shape, contents, pairs = _contents(text)
        found = {need for need in self._features if FEATURES[need].search(text)}
        if shape != text:
            found.update(need for need in self._digit_features if FEATURES[need].search(text))
        found.update(self._by_need.keys() & contents)
        literals = chain.from_iterable(self._literals[pair] for pair in self._literals.keys() & pairs)
        found.update(need for literal, need in literals if literal in (text if literal == need else shape))
        wanted: set[int] = set()
        for need in found:
            wanted.update(self._by_need[need])
        return wanted


def _rarest_pair(literal: str) -> str:
    """Return the two adjacent characters of ``literal``, with digits replaced, that the fewest texts contain."""
    shape = _DIGIT.sub(_ANY_DIGIT, literal)
    pairs: Iterable[str] = map(add, shape, shape[1:])
    return min(pairs, key=lambda pair: sum(each.isalnum() or each in _COMMON for each in pair))


@lru_cache(maxsize=1)  # the two ``Rules`` of ``normalize`` mostly see the same text
def _contents(text: str) -> tuple[str, Set[str], Set[str]]:
    """Return ``text`` with its digits replaced, its characters and words in lower case, and its pairs of characters."""
    shape = _DIGIT.sub(_ANY_DIGIT, text)
    return shape, {*text, *_WORD.findall(text.lower())}, set(map(add, shape, shape[1:]))

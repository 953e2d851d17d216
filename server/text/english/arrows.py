"""Arrows as words: 10% -> 20%, Plan A -> Plan B, Settings > Sound > Volume, 00:01:02,500 --> 00:01:05,000."""

from __future__ import annotations

import re

from server.text.english import letters, numbers, times
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_STAMP = r"(?:(?:\d{1,3}:)?[0-5]\d:[0-5]\d[.,]\d{1,3}|\d{2,3}:[0-5]\d:[0-5]\d)"
_CUE = rf"(?<![\w.:,])(?P<start>{_STAMP})[ ]*-{{1,2}}>[ ]*(?P<end>{_STAMP})(?![\w:]|[.,]\d)"
"""The time at which a subtitle is shown. "10:15 -> 12:30" are times of day."""
_COMMA = r"(?<![\w.:,])(?P<stamp>\d{1,3}:[0-5]\d:[0-5]\d,\d{3})(?![\w:]|[.,]\d)"
"""A timestamp of a subtitle without an arrow."""
_NUMBERS = r"(?<=[\d%])[ ]?-{1,2}>[ ]?(?=[$€£]?\d)"
"""10% -> 20%."""
_WORDS = r"""
    (?: (?<=[^\W_][^\W_]) | (?<=[^\w.][A-Z\d]) | (?<=^[A-Z]) | (?<=%) ) (?<!\blim[ ]\w) (?<!\blambda[ ]\w)
    [ ]-{1,2}>[ ] (?= [A-Z$€£\d] | [a-z]{2} )
"""
"""Plan A -> Plan B. An arrow after a bracket or a variable, "f(x) -> int" and "x -> y", is code."""
_AIRPORTS = r"(?<!\w)(?P<start>[A-Z]{3})[ ](?:->|→|✈)[ ](?P<end>[A-Z]{3})(?!\w)"
"""DEN → SFO."""
_FLIGHT = lazy(r"(?i:\b(?:flights?|nonstop|non-stop|round trip|airports?|layover|fly(?:ing)?)\b)|\b[A-Z]{2} ?\d{2,4}\b")
"""What shows that three capitals are an airport."""
_SEGMENT = r"[A-Z][\w'&\-.]*(?:[ ][\w'&][\w'&\-]*){0,4}"
_MENU = rf"""
    (?: (?P<verb>(?i:\b(?:go[ ]to|open|under|choose|select|click|tap|navigate[ ]to|menu|path:|visit|find)[ ](?:on[ ])?))
      | (?i:\b(?:check|see|use|in)[ ](?:the[ ])?) )?
    (?P<first>{_SEGMENT}) (?:[ ](?:-?>|→)[ ]{_SEGMENT})+
"""
"""A path through menus: Settings > Sound > Volume."""
_MENUS = frozenset(
    "save open new print app apps network security privacy display messages accessibility settings file edit view "
    "tools help home options preferences system start menu format insert window account shop "
    "profile products control general".split()
)
"""Menus with which a path may begin without a verb such as "open"."""


def _airports(match: re.Match[str]) -> str:
    if not _FLIGHT.search(match.string):
        return match[0]
    return f"{letters.spell(match['start'])} to {letters.spell(match['end'])}"


def _cue(match: re.Match[str]) -> str:
    return f"{_stamp(match['start'])} to {_stamp(match['end'])}"


def _stamp(text: str) -> str:
    """Return a timestamp as a duration: "one minute and two point five seconds"."""
    clock, _, fraction = text.replace(",", ".").partition(".")
    hours, minutes, seconds = (int(part) for part in (["0", *clock.split(":")])[-3:])
    fraction = fraction.rstrip("0")
    words = times.long_duration(hours, minutes, 0 if fraction else seconds)
    if not fraction:
        return words
    last = f"{numbers.number(f'{seconds}.{fraction}')} seconds"
    return f"{words} and {last}" if hours or minutes else last


def _menu(match: re.Match[str]) -> str:
    if not match["verb"] and match["first"].lower().split()[0] not in _MENUS:
        return match[0]
    return re.sub(r" (?:-?>|→) ", ", ", match[0])


RULES: tuple[Rule, ...] = (
    rule(_CUE, _cue, "->"),
    rule(_AIRPORTS, _airports, (" -> ", " → ", " ✈ ")),
    rule(_NUMBERS, " to ", "->"),
    rule(r"(?<=\d)[ ]?⇒[ ]?(?=[$€£]?\d)", " to ", "⇒"),
    rule(_COMMA, lambda match: _stamp(match["stamp"]), "digit:"),
    rule(_MENU, _menu, (" > ", " -> ", " → ")),
    rule(_WORDS, " to ", ("->",)),
)
"""Run before code, in which "->" has operators."""

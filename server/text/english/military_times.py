"""Times of 24 hours without a colon as words: 0900-1730, 0430, 2200 hrs."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_MILITARY_RANGE = r"""
    (?<![\w.:,$£€/\-]) (?P<start>0\d[0-5]\d)[ ]?[-–][ ]?(?P<end>[0-2]\d[0-5]\d) (?![\w\-])
  | (?<![\w.:,$£€/\-]) (?P<first>[0-2]\d[0-5]\d)[ ]?[-–][ ]?(?P<last>[0-2]\d[0-5]\d) [ ]?(?:hrs|hours|h)\b
"""
"""0900-1730."""
_LEADING_ZERO = r"""
    (?P<before> ^ | @[ ]?
      | \b(?i:at|by|until|till|from|since|before|after|around|about|dep\.?|arr\.?|departs?|arrives?)[ ] ) (?<![\w.])
    (?P<time>0\d[0-5]\d) (?![\w\-]|[.,:]\d|[ ](?:hours|hrs|h)\b|[ ]\d)
"""
"""0430."""
_MILITARY_AT = r"(?<=\bat[ ])(?P<hour>1[3-9]|2[0-4])(?P<minute>[0-5]\d)(?![\w%]|[.,:]\d|[ ][a-z])"
"""A time without its colon beside others: "up at 0600 hrs, lights out at 2200"."""
_MILITARY_BESIDE = lazy(r"(?<![\w.:,$])[0-2]\d[0-5]\d ?(?:hrs|hours|h)\b|\bat 0\d[0-5]\d\b")
_MILITARY = r"(?<![\w.:,$/\-])(?P<hour>[01]\d|2[0-4])(?P<minute>[0-5]\d)[ ]?(?:hours|hrs|h)(?!\w)"
"""2200 hrs."""


def _military_range(match: re.Match[str]) -> str:
    if match["last"]:
        return f"{_four(match['first'])} to {_four(match['last'])} hours"
    return f"{_four(match['start'])} to {_four(match['end'])}"


def _leading_zero(match: re.Match[str]) -> str:
    before = "at " if match["before"].startswith("@") else match["before"]
    return before + (numbers.digits(match["time"]) if match["time"].startswith("00") else _four(match["time"]))


def _military(match: re.Match[str]) -> str:
    hour, minute = int(match["hour"]), int(match["minute"])
    head = numbers.cardinal(hour) if hour >= 10 else f"oh {numbers.cardinal(hour)}"
    return f"{head} {numbers.cardinal(minute) if minute else 'hundred'} hours"


def _military_at(match: re.Match[str]) -> str:
    beside = _MILITARY_BESIDE.search(match.string)
    return _four(match["hour"] + match["minute"]) if beside else match[0]


def _four(text: str) -> str:
    hour, minute = int(text[:2]), int(text[2:])
    head = f"oh {numbers.cardinal(hour)}" if hour < 10 else numbers.cardinal(hour)
    return f"{head} {numbers.pair(minute) if minute else 'hundred'}"


RULES: tuple[Rule, ...] = (
    rule(_MILITARY_RANGE, _military_range, [rf"\d\d\d\d{space}{dash}" for space in ("", " ") for dash in "-–"]),
    rule(_MILITARY_AT, _military_at, r"at \d\d\d\d"),
    rule(_MILITARY, _military, "digit h"),
    rule(_LEADING_ZERO, _leading_zero, "zero digits"),
)

"""Timestamps of subtitles as words: 00:01:02,500 --> 00:01:05,000."""

from __future__ import annotations

import re

from server.text.english import numbers, times
from server.text.english.rules import Rule, rule

_STAMP = r"(?:(?:\d{1,3}:)?[0-5]\d:[0-5]\d[.,]\d{1,3}|\d{2,3}:[0-5]\d:[0-5]\d)"
_CUE = rf"(?<![\w.:,])(?P<start>{_STAMP})[ ]*-{{1,2}}>[ ]*(?P<end>{_STAMP})(?![\w:]|[.,]\d)"
"""The time at which a subtitle is shown. "10:15 -> 12:30" are times of day."""
_COMMA = r"(?<![\w.:,])(?P<stamp>\d{1,3}:[0-5]\d:[0-5]\d,\d{3})(?![\w:]|[.,]\d)"


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


RULES: tuple[Rule, ...] = (
    rule(_CUE, _cue, "->"),
    rule(r"(?<=[\d%])[ ]?-{1,2}>[ ]?(?=[$€£]?\d)", " to ", "->"),
    rule(_COMMA, lambda match: _stamp(match["stamp"]), "digit:"),
)
"""Run before code, in which "-->" has operators."""

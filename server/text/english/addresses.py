"""Postal addresses: 123 Main St., 42 W. 5th St., Apt. 4B, Springfield, IL 62704."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule

_STREETS = "St Ave Rd Blvd Dr Ln Ct Pl Way Street Avenue Road Boulevard Drive Lane Court Place".split()
_NTH = r"\d{1,3}(?:st|nd|rd|th)"
_NUMBER = rf"""
    (?<![\w.,$€£/\-]) \d{{3,4}}
    (?= (?:[ ][NSEW]\.?)? (?:[ ][A-Z][a-z]+|[ ]{_NTH}){{1,3}} [ ](?:{"|".join(_STREETS)})\b )
"""
_HALF_NUMBER = r"(?<![\w.,$€£/\-])(?P<number>\d{1,5})(?P<letter>[A-D])(?=[ ][A-Z][a-z])"
"""221B Baker Street."""
_DIRECTION = rf"""
    (?<=\d[ ]) (?P<direction>[NSEW])\.? (?= [ ](?:{_NTH}[ ]|[A-Z][a-z]+[ ](?:{"|".join(_STREETS)})\b) )
"""
_DIRECTIONS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_DOORS = "apartment apt unit room suite gate seat flat row number".split()
_DOOR = rf"""
    (?P<word> \b(?i:{"|".join(_DOORS)})[ ]\#? ) (?P<number>\d{{1,4}}) -? (?P<letter>[A-Z]) (?!\w)
"""
_ZIP = r"""
    (?P<before>,[ ]|[a-z][ ]) (?P<state>[A-Z]{2}) [ ] (?P<zip>\d{5}) (?:-(?P<more>\d{4}))? (?![\w\-]|[.,]\d)
"""
STATES: dict[str, str] = dict(
    entry.split(" ", 1)
    for entry in (
        "AL Alabama|AK Alaska|AZ Arizona|AR Arkansas|CA California|CO Colorado|CT Connecticut|DE Delaware|FL Florida|"
        "GA Georgia|HI Hawaii|ID Idaho|IL Illinois|IN Indiana|IA Iowa|KS Kansas|KY Kentucky|LA Louisiana|ME Maine|"
        "MD Maryland|MA Massachusetts|MI Michigan|MN Minnesota|MS Mississippi|MO Missouri|MT Montana|NE Nebraska|"
        "NV Nevada|NH New Hampshire|NJ New Jersey|NM New Mexico|NY New York|NC North Carolina|ND North Dakota|OH Ohio|"
        "OK Oklahoma|OR Oregon|PA Pennsylvania|RI Rhode Island|SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|"
        "UT Utah|VT Vermont|VA Virginia|WA Washington|WV West Virginia|WI Wisconsin|WY Wyoming|DC D C"
    ).split("|")
)


def _zip(match: re.Match[str]) -> str:
    state = STATES.get(match["state"])
    if state is None:
        return match[0]
    more = f", {numbers.digits(match['more'])}" if match["more"] else ""
    return f"{match['before']}{state} {numbers.digits(match['zip'])}{more}"


def _door(match: re.Match[str]) -> str:
    return f"{match['word']}{numbers.grouped(match['number'])} {match['letter']}"


RULES: tuple[Rule, ...] = (
    rule(_ZIP, _zip, "digit zip"),
    rule(_DIRECTION, lambda match: _DIRECTIONS[match["direction"]], "digit direction"),
    rule(_NUMBER, lambda match: numbers.grouped(match[0]), map(str.lower, _STREETS)),
    rule(_DOOR, _door, _DOORS),
    rule(_HALF_NUMBER, lambda match: f"{numbers.grouped(match['number'])} {match['letter']}", "digit A"),
)
"""Run before units: "Apt. 4B" is not four billion, and "42 W. 5th St." has no watts."""

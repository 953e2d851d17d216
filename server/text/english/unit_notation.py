"""Notation beside units as words: 3+ yrs., 6.2/16 GB, 4,200/km², 110 V and 15 A."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.english.unit_words import PER, UNITS
from server.text.patterns import lazy

_AND_MORE = rf"""
    (?<![\w.,]) (?P<number>{numbers.NUMBER})\+[ ]?
    (?P<unit>(?:yr|hr|min|lb|wk|mo)s?\b\.?|(?:mi|km|ft|oz|kg|GB|TB|sq[ ]ft|sq[ ]m|(?P<square>km|m|ft)²)(?!\w))
    (?P<old>(?=[ -]old\b))?
"""
"""3+ yrs."""
_USED_OF = r"(?<![\w.,/])(?P<used>\d{1,4}\.\d{1,2})[ ]?/[ ]?(?=\d[\d.]{0,6}[ ]?[KMGTP]i?B(?!\w))"
"""6.2/16 GB."""
_PER_AREA = r"(?<=\d)/(?P<unit>km|mi|m|ft)(?:²|\^?2)(?!\w)"
"""4,200/km²."""
_COUNTED_PER = r"(?<=[a-z]{2}s)/(?P<unit>[mdµu]L|ml|kg|mg|km|mi|min|sec|hr|day|wk|mo|yr|acre)(?![\w/])"
"""cells/mL, calls/hr."""
_MILLIBARS = r"(?:(?<=\b[89]\d\d)|(?<=\b10\d\d))[ ]?mb(?!\w)"
_STORM = lazy(r"(?i)\b(?:hurricane|storm|pressure|cyclone|typhoon|barometer|winds?)\b")
_NAUTICAL = r"(?<=\d)[ ]?nm(?!\w)"
_AT_SEA = lazy(r"\b(?:kts?|knots|gusts?|gusting|seas|offshore|sailing|marina)\b")
"""What shows that nm are nautical miles."""
_AMPS = r"(?<=\d)[ ]A(?=[ ](?:max|min|total|fuse|circuit|at|from)\b|[,;)]|\.?\s*$)"
_JEWEL = lazy(r"(?i)\b(?:rings?|stones?|cut|karat|gold|diamonds?|gems?|sapphires?|rub(?:y|ies)|emeralds?|earrings?)\b")
"""What shows that ct are carats, and not a count."""
_LAMP = r"(?:(?<=[ (][1-9]\d00)|(?<=^[1-9]\d00))K(?!\w)"
_LIGHT = lazy(
    r"\b(?:LEDs?|bulbs?|lights?|lighting|lumens?|lamps?|daylight|colou?r temperature|[Ww]hite balance|tungsten|flash)\b"
)
"""What shows that 2700K is the color of a lamp."""
_MEMORY = r"""
    (?<![\w.,$€£]) (?![2-6]G[ ](?:free|used|available)\b) (?P<number>\d{1,4}(?:\.\d{1,2})?)
    (?P<scale> [GT](?=[ ](?:free|used|available)\b)
      | [KMGT](?=[ ](?:of[ ](?:RAM|memory|disk|swap|storage)|RAM|swap)\b) )
"""
"""1.3G free."""
_ATMOSPHERES = r"""
    (?P<number> (?<![\w.,])\d{1,4}\.\d{1,3}
      | \b(?:[Pp]ressures?[ ](?:of|at|is|was|to)|pressuri[sz]ed[ ]to)[ ]\d{1,4} )
    [ ]?atm (?![\w.]\w|\w)
"""
"""2.5 atm, a pressure of 5 atm."""
_ACRES = r"""
    (?<![\w.,])(?P<number>\d{1,4}\.\d{1,3}|\d{1,4}(?=[ ]ac\.[ ](?:and|of|in|near|with|on)\b))[ ]?ac\b
    (?:\.(?=[ ][a-z]|,))? (?![ ]?(?:power|current|volt|adapter|motor|charg|and[ ]\d+[ ]?V)|/)
"""
"""0.38 ac, 40 ac. and a mill."""
_WIND = r"(?P<cue>\b[Ww]inds?[ ](?:from[ ])?)(?P<from>[0-3]\d0)/(?P<speed>\d{1,3})(?=[ ]?(?:kts?|knots|G\d))"
"""Wind 240/15kt."""
_DEEP_TIME = lazy(
    r"\bMa ago\b|\b(?:fossils?|crater|extinct\w*|epoch|Cretaceous|Jurassic|sediments?|strata|formation)\b"
)
"""Words beside which 66 Ma are millions of years."""
_ELECTRIC = lazy(r"\d ?(?:V|VAC|VDC|kV|Hz|kW)\b")
"""What shows that "15 A" has amps."""


def _and_more(match: re.Match[str]) -> str:
    """Return a number and its unit with "plus" between them. The unit is singular in "50+ yr. old"."""
    one, many = UNITS[match["square"] or match["unit"].rstrip(".")]
    if match["square"]:
        one, many = f"square {one}", f"square {many}"
    return f"{numbers.number(match['number'])} plus {many if match['old'] is None else one}"


def _amps(match: re.Match[str]) -> str:
    return " amps" if _ELECTRIC.search(match.string) else match[0]


def _count(match: re.Match[str]) -> str:
    return match[0] if _JEWEL.search(match.string) else " count"


def _lamp(match: re.Match[str]) -> str:
    return " kelvin" if _LIGHT.search(match.string) else match[0]


def _millibars(match: re.Match[str]) -> str:
    return " millibars" if _STORM.search(match.string) else match[0]


def _nautical(match: re.Match[str]) -> str:
    return " nautical miles" if _AT_SEA.search(match.string) else match[0]


def _ago(match: re.Match[str]) -> str:
    return " million years ago" if _DEEP_TIME.search(match.string) else match[0]


RULES: tuple[Rule, ...] = (
    rule(
        _WIND,
        lambda match: f"{match['cue']}{' '.join(match['from'])} at {match['speed']}",
        r"\d/\d",
    ),
    rule(r"(?<=\d)(?<!\b[12]\d\d\d)[ ]?Ma(?!\w|\.\w|')(?:[ ]ago)?", _ago, ("ma", r"\dMa")),
    rule(
        r"(?<=\d)[ ]?reqs?/(?P<per>s|sec|min|h|hr|hour|day)(?!\w)",
        lambda match: f" requests per {PER[match['per']]}",
        ("req", "reqs"),
    ),
    rule(r"(?<=\d\d\d)[ ]?°[ ]?T(?![\w-])", " degrees true", "°"),
    rule(r"(?<=\d[ ])x(?=[ ]\d{0,2}[½¼¾⅓⅔⅛⅜⅝⅞](?:[\"″']|[ ]?(?:in|inch|inches|ft|mm|cm)\b))", "by", ("x",)),
    rule(
        r"(?<=\d[kKM])/(?P<per>min|sec|s|hr|h|day|wk|week|mo|month|yr|year)(?!\w)",
        lambda match: f" per {PER[match['per']]}",
        ("k/", "K/", "M/"),
    ),
    rule(r"(?<!\.\d)(?<=\d)[ ]?ct\b\.?(?=\)|[ ](?:box|pack|bag)|,)", _count, ("ct",)),
    rule(
        r"(?<=\d\d)(?<!\b10)(?<!\b14)(?<!\b18)(?<!\b22)(?<!\b24)[ ]?ct\b(?:(?=\.[ ][A-Z])|\.?(?=\s*$))", _count, ("ct",)
    ),
    rule(r"(?<=\d)[ ]?[lL]/100[ ]?km(?!\w)", " liters per hundred kilometers", "/100"),
    rule(_LAMP, _lamp, r"\dK"),
    rule(_MILLIBARS, _millibars, ("mb", r"\dmb")),
    rule(_NAUTICAL, _nautical, ("nm", r"\dnm")),
    rule(_AND_MORE, _and_more, "digit +"),
    rule(_USED_OF, r"\g<used> of ", "digit/"),
    rule(_PER_AREA, lambda match: f" per square {UNITS[match['unit']][0]}", ("/km", "/mi", "/m", "/ft")),
    rule(
        _COUNTED_PER,
        lambda match: f" per {UNITS[match['unit']][0] if match['unit'] in UNITS else match['unit']}",
        "/",
    ),
    rule(_MEMORY, lambda match: f"{match['number']}{match['scale']}B", [rf"\d{scale} " for scale in "KMGT"]),
    rule(_ATMOSPHERES, r"\g<number> atmospheres", ("atm", r"\datm")),
    rule(_ACRES, r"\g<number> acres", ("ac", r"\dac")),
    rule(_AMPS, _amps, (" A ", " A,", " A.", " A;", " A)")),
)
"""Run before units."""

"""Points of the compass as words: I-95 N, 42 W. 5th St., N. Korea, wind NNW, 51°30'26"N."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.addresses import NTH, STREETS
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_DIRECTIONS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_DIRECTION = rf"""
    (?P<direction>[NSEW]) (?: (?<=^.) | (?<=[a-z,;(][ ].) | (?<=\(.) | (?<=\d[ ].) | (?<=&[ ].) ) \.?
    (?= [ ](?:{NTH}[ ]|(?:(?:St\.|Saint)[ ])?[A-Z][a-z]+[ ](?:{"|".join(STREETS)})\b) )
"""
_ROUTE = r"""
    (?<!\w) (?P<road>(?:I|US|SR|(?i:route|highway|interstate|hwy\.?|rte\.?))[ -]\d{1,3}) [ ]
    (?P<direction>[NSEW]) (?!\w|\.\w) (?:\.(?=[ ][a-z]|,))?
"""
"""I-95 N."""
_POSITION = r"""
    (?<![\w.]) (?P<degrees>\d{1,3}) [°º][ ]? (?P<minutes>\d{1,2}(?:\.\d+)?) ['′][ ]?
    (?: (?P<seconds>\d{1,2}(?:\.\d+)?) (?:\"|″|'')[ ]? )? (?P<direction>[NSEW]) (?!\w)
"""
"""51°30'26"N."""
_WIND = r"""
    (?P<before>\b(?:[Ww]inds?|[Gg]usts?|[Hh]eading|[Ss]wells?|[Bb]lowing)[ ](?:from[ ])?(?:the[ ])?)
    (?P<wind>(?:[NS]|[NESW](?=[NS]))?[NS][EW])(?!\w)
"""
"""Wind NNW."""
_COMPASS = (
    r"(?P<before>\b(?:[Mm]oving|[Ff]rom|[Hh]eading|[Bb]lowing|[Tt]racking|[Gg]usting|mi|km|miles|kilometers)[ ])"
    r"(?P<wind>NNE|NNW|SSE|SSW|ENE|ESE|WNW|WSW)(?![\w&/-]|\.\w)"
)
"""Moving WNW. SSE is also a protocol."""
_BOUND = (
    r"(?<![\w.])(?P<direction>[NSEW])B"
    r"(?=[ ](?:I-?\d{2,3}|US-?[ ]?\d+|SR|[Hh]wy|[Rr]oute|[Rr]te|lanes?|traffic|ramps?)\b)"
)
"""NB I-405."""
_FROM_PLACE = r"[ ](?P<wind>[NS]?[EW]|[NS])\.?(?=[ ]of[ ])"
"""3 mi. N of town."""
_SIDE_OF = r"""
    (?P<before> ^ | [,;(][ ]? | \b(?:is|are|was|lies?|just|due|far|and|lives?|lived|located|blocks?|east|west)[ ] )
    (?P<direction>[NSEW])\.[ ]of (?=[ ])
"""
"""N. of the border."""
_DISTANCE_BEFORE = lazy(
    r"(?:\d ?(?:mi|km|m|ft|yds?|mins?|hrs?)\.?|\b(?:miles?|kilometers|meters|feet|yards|blocks?|minutes|hours|just))$"
)
_PLACES: dict[str, str] = {
    "N": "Korea|Carolina|Dakota|Ireland|Macedonia|Yorkshire|Hollywood|Africa|America",
    "S": "Korea|Carolina|Dakota|Africa|America|Sudan|Yorkshire|Wales",
    "E": "Africa|Germany|Timor|Jerusalem",
    "W": "Virginia|Africa|Germany|Bank|Ham|Midlands|Yorkshire|Hollywood",
}
"""Direction -> regions that it divides."""
_DIVIDED = "|".join(rf"{letter}(?=\.?[ ](?:{names})\b)" for letter, names in _PLACES.items())
_REGION = rf"(?<![\w.&'-])(?<!\b[A-Z]\.[ ])(?!E[ ])(?P<direction>{_DIVIDED})\.?"
"""N. Korea, W Virginia. "Vitamin E" is no direction."""


def _side(match: re.Match[str]) -> str:
    """Return a direction, in lower case within a sentence."""
    word = _DIRECTIONS[match["direction"]]
    return word.lower() if match["before"].strip(" (") else word


def _wind(match: re.Match[str]) -> str:
    return match["before"] + _point(match["wind"])


def _from_place(match: re.Match[str]) -> str:
    distance = _DISTANCE_BEFORE.search(match.string, max(0, match.start() - 16), match.start())
    return f" {_point(match['wind'])}" if distance else match[0]


def _point(wind: str) -> str:
    """Return a point of the compass in words: NE is "northeast", NNW "north-northwest"."""
    first, *others = (_DIRECTIONS[each].lower() for each in wind)
    return f"{first}{'-' if len(others) > 1 else ''}{''.join(others)}"


def _position(match: re.Match[str]) -> str:
    parts = [
        numbers.plural(match[name].lstrip("0") or "0", name[:-1], name)
        for name in ("degrees", "minutes", "seconds")
        if match[name]
    ]
    return f"{' '.join(parts)} {_DIRECTIONS[match['direction']].lower()}"


RULES: tuple[Rule, ...] = (
    rule(
        rf"(?P<way>\b[NSEW]\.?[ ])St\.(?=[ ][A-Z][a-z]+[ ](?:{'|'.join(STREETS)})\b)",
        r"\g<way>Saint",
        tuple(f"{way} St." for way in ("N", "S", "E", "W", "N.", "S.", "E.", "W.")),
    ),
    rule(_SIDE_OF, lambda match: f"{match['before']}{_side(match)} of", (". of ",)),
    rule(_ROUTE, lambda match: f"{match['road']} {_DIRECTIONS[match['direction']].lower()}", "digit direction"),
    rule(_POSITION, _position, ("°", "º")),
    rule(_WIND, _wind, ("wind", "winds", "gust", "gusts", "heading", "swell", "swells", "blowing")),
    rule(
        _BOUND,
        lambda match: f"{_DIRECTIONS[match['direction']].lower()}bound",
        tuple(f"{direction}B " for direction in _DIRECTIONS),
    ),
    rule(_COMPASS, _wind, "capitals"),
    rule(_FROM_PLACE, _from_place, (" of ",)),
    rule(
        _DIRECTION,
        lambda match: _DIRECTIONS[match["direction"]],
        ("digit direction", "ordinal digit", *map(str.lower, STREETS)),
    ),
    rule(
        _REGION,
        lambda match: _DIRECTIONS[match["direction"]],
        {name.lower() for names in _PLACES.values() for name in names.split("|")},
    ),
)
"""Run before units: "42 W. 5th St." has no watts."""

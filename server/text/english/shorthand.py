"""Shorthand of notes, advertisements and directions: this yr, living rm, P/T, 18 HRs, 84"L, then L on Rt. 9."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_STOP = r"(?:\.(?=[ ][a-z]|,))?"
"""A full stop of an abbreviation, not of a sentence."""
_ROOMS = "living|dining|family|laundry|guest|sitting|meeting|conf|conference|class|hotel|rec|sun|mud|waiting|locker"
_TURN = r"""
    (?P<way> \b(?:[Tt]urn|[Bb]ear|[Vv]eer|(?:[Hh]ang|[Mm]ake|[Tt]ake)[ ]an?)[ ]
        (?=[LRrl]t?(?:[ ](?:on|at|in|a)|\s*[.,;]|\s*$))
      | \b(?:[Tt]hen|[Gg]o|[Kk]eep)[ ](?=[LRrl]t?[ ](?:on|onto|at|into)[ ]) )
    (?P<side>[LR]|rt|lt)\b
"""
"""Then L on Main St., turn rt onto Highway 61."""
_SIDES = {"L": "long", "W": "wide", "H": "high", "D": "deep"}
_SIDE = r"(?P<size>\d(?:[\"″'′]|(?:in|cm|mm|ft)\b\.?))[ ]?(?P<side>[LWHD])(?=[ ]?(?:[x×,;.)]|$))"
"""84"L x 38"D."""
_AD = r"""
    ^(?P<age>1[89]|[2-9]\d)(?P<sex>[MF])
    (?=,[ ](?:\d['′]|(?:non-?smoker|single|divorced|married|looking|seeking|living|from)\b)
      |[ ](?:here|looking|seeking)\b)
"""
"""32M, who introduces himself."""
_MEMORY = r"(?<![\w/.])(?P<memory>8|12|16|18|24|32|36|48|64)/(?P<disk>64|128|256|512)(?:[ ]?GB)?(?![\w/]|\.\d)"
_COMPUTER = lazy(r"(?i)\b(?:macbook|ipad|iphone|galaxy|pixel|laptop|phone|pc|ram|ssd|battery|m[1-5])\b")
"""What shows that 8/256 is a size of memory and of a disk."""
_WHEELS = {"26": "twenty-sixer", "29": "twenty-niner"}


def _turn(match: re.Match[str]) -> str:
    return match["way"] + ("left" if match["side"][0] in "Ll" else "right")


def _memory(match: re.Match[str]) -> str:
    if not _COMPUTER.search(match.string):
        return match[0]
    return f"{numbers.number(match['memory'])}, {numbers.number(match['disk'])}"


def _shoes(match: re.Match[str]) -> str:
    return match["name"] + numbers.plural_number(numbers.cardinal(int(match["number"])))


RULES: tuple[Rule, ...] = (
    rule(rf"(?P<kind>\b(?i:{_ROOMS})[ ]|\d['′][ ])rm(?P<many>s?)\b{_STOP}", r"\g<kind>room\g<many>", ("rm", "rms")),
    rule(rf"\b(?P<which>(?:[Tt]his|[Ll]ast|[Nn]ext|per|each|every)[ ])yr\b{_STOP}", r"\g<which>year", ("yr",)),
    rule(rf"\b(?P<which>(?:[Hh]appy|[Rr]ush|per|each|every)[ ])hr\b{_STOP}", r"\g<which>hour", ("hr",)),
    rule(
        r"\b(?P<word>[Rr])eg\.(?=[ ](?:closes|opens|ends|begins|starts|deadline|form|fees?|is|required|due|link)\b)",
        r"\g<word>egistration",
        ("reg",),
    ),
    rule(r"\b(?P<word>[Ee])lec\.(?=[ ](?:bills?|company|provider|service)\b)", r"\g<word>lectric", ("elec",)),
    rule(r"\b(?P<word>[Ss])ec\.(?=[ ]deposits?\b)", r"\g<word>ecurity", ("sec",)),
    rule(r"\b(?P<word>[Ss])ec\b\.?(?=[ ]\d{1,3}[A-Z]?,?[ ](?:[Rr]ow|[Ss]eats?)\b)", r"\g<word>ection", ("sec",)),
    rule(
        r"(?<![\w/])(?P<kind>[PF])/T(?=[ ](?!ratio|graph|diagram|curve)[a-z]{2}|\s*[.,;)]|\s*$)",
        lambda match: "part-time" if match["kind"] == "P" else "full-time",
        ("P/T", "F/T"),
    ),
    rule(r"(?<=\d[ ])HRs\b", "home runs", ("HRs",)),
    rule(r"(?<=\d)[ -]?yds?[ ]line\b", " yard line", ("line",)),
    rule(
        r"(?<!\w)(?P<wheel>650|700)[ ]?[x×][ ]?(?P<tire>\d{2})(?P<kind>[bBcC])?(?!\w)",
        lambda match: f"{match['wheel']} by {match['tire']}" + (f" {match['kind'].upper()}" if match["kind"] else ""),
        ("digit x",),
    ),
    rule(
        r"(?<![\w.])(?P<size>26|29)er(?P<many>s?)\b",
        lambda match: _WHEELS[match["size"]] + match["many"],
        ("er", "ers"),
    ),
    rule(r"(?<=\d)[ ]?cm(?=[ ](?:[a-z]{4,10}[ ])?(?:bikes?|frames?|bicycles?)\b)", " centimeter", ("cm",)),
    rule(r"\b(?P<word>[Ff])lt\b\.?(?=[ ](?:\#[ ]?)?(?:[A-Z]{2}[ ]?)?\d)", r"\g<word>light", ("flt",)),
    rule(
        r"\b(?P<word>[Aa])rr\.(?=[ ](?:[A-Z][a-z]+[ ]){1,3}(?:Sta|Stn|Station|Airport)\b)", r"\g<word>rrives", ("arr",)
    ),
    rule(r"\b(?P<name>[A-Z][a-z]+[ ])Sta\.(?![ ]?[A-Z]|\w)", r"\g<name>Station", ("Sta.",)),
    rule(_SIDE, lambda match: f"{match['size']} {_SIDES[match['side']]}"),
    rule(r"\bnr\.?(?=[ ](?:the[ ]|\d{1,3}(?:st|nd|rd|th)\b|[A-Z][a-z]))", "near", ("nr",)),
    rule(
        r"(?P<what>\b(?:EPS|earnings|revenue|sales|consensus)[ ])est\.?(?=[ ](?:by|of|at|for)\b|\s*$)",
        r"\g<what>estimates",
        ("est",),
    ),
    rule(_TURN, _turn, (" L", " R", " rt", " lt")),
    rule(r"(?<![\w.])Rt\b\.?(?=[ ]\d{1,3}[A-Z]?(?!\w|[.,:]\d))", "Route", ("rt",)),
    rule(r"(?<=\d[ ])blk(?P<many>s?)\b\.?(?=[ ][a-zNSEW])", r"block\g<many>", ("blk", "blks")),
    rule(
        r"\b(?P<limit>(?:[Ll]imit|[Mm]ax(?:imum)?)[ ](?:of[ ])?\d{1,3})[ ]?/[ ]?"
        r"(?=(?:customer|person|household|family|order|guest|day|visit|account|user|table|room|member|student)\b)",
        r"\g<limit> per ",
        ("limit", "max", "maximum"),
    ),
    rule(
        r"\b(?P<name>(?:Jordan|Dunk|Retro|Yeezy)[ ])(?P<number>\d{1,3})s\b",
        _shoes,
        ("jordan", "dunk", "retro", "yeezy"),
    ),
    rule(_MEMORY, _memory, "digit/"),
    rule(
        r"\b(?P<way>[DdUu])[Ll](?=[ ]speeds?\b)",
        lambda match: {"D": "Down", "d": "down", "U": "Up", "u": "up"}[match["way"]] + "load",
        ("dl", "ul"),
    ),
    rule(_AD, lambda match: f"{numbers.number(match['age'])} {match['sex']}", "digit letter"),
    rule(
        r"(?<![\w/.])(?<!\d[ ])(?:1/2|½)(?=[ ](?:off|price|priced|dozen)\b)",
        "half",
        ("off", "price", "priced", "dozen"),
    ),
    rule(r"\b(?P<which>(?:[Mm]aster|[Gg]uest|[Mm]ain|[Pp]rimary|[Ss]pare)[ ])BR\b", r"\g<which>bedroom", ("BR",)),
    rule(r"\b(?P<word>[Bb])lt\.?(?=[ ](?:in[ ])?(?:1[89]|20)\d\d\b)", r"\g<word>uilt", ("blt",)),
    rule(
        r"\b(?P<word>[Gg])rad\.(?=[ ](?:in[ ])?"
        r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Spring|Fall|\d{4}))",
        r"\g<word>raduated",
        ("grad",),
    ),
)
"""Run before the rules for abbreviations, units and numbers."""

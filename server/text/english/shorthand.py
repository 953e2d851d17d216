"""Shorthand of notes, advertisements and directions: this yr, living rm, P/T, 18 HRs, 84"L, then L on Rt. 9."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, Speak, rule
from server.text.patterns import lazy

_STOP = r"(?:\.(?=[ ][a-z]|,))?"
"""A full stop of an abbreviation, not of a sentence."""
_ROOMS = "living|dining|family|laundry|sitting|meeting|conference|hotel|waiting|locker"
_ONTO = (
    r"(?:onto[ ]|(?:on|at)[ ](?:the[ ])?"
    r"(?:(?!Windows|Linux|Mac|Ubuntu)[A-Z][a-z]+|\d{1,3}(?:st|nd|rd|th)|light|fork|stop|sign|corner|next|end)\b)"
)
"""What follows the side in a direction: "onto Main St.", "at the light". "Then R on Windows" is a language."""
_TURN = rf"""
    (?P<way> \b(?<!in[ ])(?:[Tt]urn|[Bb]ear|[Vv]eer)[ ](?=[LRrl]t?(?:[ ]{_ONTO}|[.;]?\s*$))
      | \b(?:[Tt]hen|[Gg]o|[Kk]eep)[ ](?=[LRrl]t?[ ]{_ONTO})
      | \b(?:[Hh]ang|[Mm]ake|[Tt]ake)[ ]a[ ](?=[LR](?:[ ](?:onto|at|after|past)\b|[ ]on[ ][A-Z\d]|[.,;]|\s*$)) )
    (?P<side>[LR]|rt|lt)\b
"""
"""Then L on Main St., turn rt onto Highway 61."""
_SIDES = {"L": "long", "W": "wide", "H": "high", "D": "deep"}
_SIDE = r"(?P<size>\d(?:[\"″'′]|(?:in|cm|mm|ft)\b\.?))[ ]?(?P<side>[LWHD])(?=[ ]?(?:[x×,;.)]|$))"
"""84"L x 38"D."""
_DIMENSIONS = lazy(r"\d(?:[\"″'′]|in|cm|mm|ft)?\.? ?[LWHD] ?[x×] ?\d")
"""What shows that the letters after a length are sides."""
_AD = r"""
    ^(?P<age>1[89]|[2-9]\d)(?P<sex>[MF])
    (?=,[ ](?:\d['′]|(?:non-?smoker|single|divorced|married)\b)|[ ]looking[ ]for[ ](?:a|F)[ ])
"""
"""32M, who introduces himself."""
_MEMORY = r"(?<![\w/.])(?P<memory>8|12|16|18|24|32|36|48|64)/(?P<disk>64|128|256|512)(?P<unit>[ ]?GB)?(?![\w/]|\.\d)"
_COMPUTER = lazy(
    r"(?i)\b(?:macbook|ipad|iphone|galaxy|pixel|laptop|phone|pc|ram|m[1-5])\b"
    r"(?:(?! (?:step|fraction|score|page|test)\b).){0,24}$"
)
"""What shows that 8/256 is a size of memory and of a disk."""
_BASEBALL = lazy(r"\b(?:RBIs?|innings?|MLB|homers?|batting(?! cages?))\b")
"""What shows that HR is a home run, and no hour."""
_HIT = lazy(r"\b(?:hit|scored|slugged)[ ]$")
_VERB_BEFORE = lazy(
    r"(?:\b(?:am|is|are|was|were|be|been|turned|turns)|['’](?:s|m|re))[ ](?:(?:only|just|about|almost)[ ])?\d{1,3}$"
)
_JOBS = (
    "jobs?|work|staff|positions?|help|employees?|roles?|hours|students?|dishwasher|cashier|server|driver|cook|nurse|teacher|barista"
    "|nanny|sitter|clerk|assistant|associate|receptionist"
)
_WHEELS = {"26": "twenty-sixer", "29": "twenty-niner"}


def _turn(match: re.Match[str]) -> str:
    return match["way"] + ("left" if match["side"][0] in "Ll" else "right")


def _memory(match: re.Match[str]) -> str:
    memory, disk = int(match["memory"]), int(match["disk"])
    if not _COMPUTER.search(match.string, max(0, match.start() - 40), match.start()) or disk < 8 * memory:
        return match[0]
    return f"{numbers.cardinal(memory)}, {numbers.cardinal(disk)}{' gigabytes' if match['unit'] else ''}"


def _side(match: re.Match[str]) -> str:
    return f"{match['size']} {_SIDES[match['side']]}" if _DIMENSIONS.search(match.string) else match[0]


def _count(one: str) -> Speak:
    """Return a function that writes a noun after its number."""

    def speak(match: re.Match[str]) -> str:
        return f"{match['count']} {one}{'' if match['count'] == '1' else 's'}"

    return speak


def _home_runs(match: re.Match[str]) -> str:
    hit = match["many"] and _HIT.search(match.string, max(0, match.start() - 10), match.start())
    return _count("home run")(match) if hit or _BASEBALL.search(match.string) else match[0]


def _year_old(match: re.Match[str]) -> str:
    """Return an age before what has it. After a verb it is unchanged: "was 9 yr old"."""
    said = _VERB_BEFORE.search(match.string, max(0, match.start() - 24), match.start())
    return match[0] if said else "-year-old"


def _boards(match: re.Match[str]) -> str:
    """Return boards by their sides and length: 2x4x8s."""
    return f"{match['sides']} by {numbers.plural_number(numbers.cardinal(int(match['long'])))}"


def _shoes(match: re.Match[str]) -> str:
    return match["name"] + numbers.plural_number(numbers.cardinal(int(match["number"])))


RULES: tuple[Rule, ...] = (
    rule(rf"(?P<kind>\b(?i:{_ROOMS})[ ]|\d['′][ ])rm(?P<many>s?)\b{_STOP}", r"\g<kind>room\g<many>", ("rm", "rms")),
    rule(rf"\b(?P<which>(?:[Tt]his|[Ll]ast|[Nn]ext|per|each|every)[ ])yr\b{_STOP}", r"\g<which>year", ("yr",)),
    rule(rf"\b(?P<which>(?:[Hh]appy|[Rr]ush|per|each|every)[ ])hr\b{_STOP}", r"\g<which>hour", ("hr",)),
    rule(
        r"\b(?P<word>[Rr])eg\.(?=[ ](?:closes|opens|ends|begins|starts|deadline|form|fees?)\b)",
        r"\g<word>egistration",
        ("reg",),
    ),
    rule(r"\b(?P<word>[Ee])lec\.(?=[ ](?:bills?|company|provider|service)\b)", r"\g<word>lectric", ("elec",)),
    rule(r"\b(?P<word>[Ss])ec\.(?=[ ]deposits?\b)", r"\g<word>ecurity", ("sec",)),
    rule(r"\b(?P<word>[Ss])ec\b\.?(?=[ ]\d{1,3}[A-Z]?,?[ ](?:[Rr]ow|[Ss]eats?)\b)", r"\g<word>ection", ("sec",)),
    rule(
        rf"(?<![\w/])[PF]/T(?=[ ](?:{_JOBS}|or[ ][PF]/T)\b)|(?<=[PF]/T[ ]or[ ])[PF]/T\b",
        lambda match: "part-time" if "P" in match[0] else "full-time",
        ("P/T", "F/T"),
    ),
    rule(
        r"(?<![\w.])(?P<count>\d{1,2})[ ]HR(?P<many>s?)\b",
        _home_runs,
        (" HR",),
    ),
    rule(
        r"(?P<ball>\b(?:on|in|with)[ ](?:a|the)[ ]|\bouts?,[ ])(?P<balls>[0-3])-(?P<strikes>[0-2])(?=[ ]count\b)",
        r"\g<ball>\g<balls> and \g<strikes>",
        ("count",),
    ),
    rule(r"(?<=\d)[ -]?yds?[ ]line\b", " yard line", ("line",)),
    rule(
        r"(?<!\w)(?P<wheel>650|700)[ ]?[x×][ ]?(?P<tire>\d{2})(?P<kind>[bBcC])?(?!\w|[ ]?=)",
        lambda match: f"{match['wheel']} by {match['tire']}" + (f" {match['kind'].upper()}" if match["kind"] else ""),
        ("digit x",),
    ),
    rule(
        r"(?<![\w.])(?P<size>26|29)er(?P<many>s?)\b",
        lambda match: _WHEELS[match["size"]] + match["many"],
        ("er", "ers"),
    ),
    rule(
        r"(?<=\d)[ ]?cm"
        r"(?=[ ](?:(?:road|mountain|gravel|touring|racing|steel|carbon|city|hybrid)[ ])?(?:bike|frame|bicycle)\b)",
        " centimeter",
        ("cm",),
    ),
    rule(r"\b(?P<word>[Ff])lt\b\.?(?=[ ](?:\#[ ]?)?(?:[A-Z]{2}[ ]?)?\d)", r"\g<word>light", ("flt",)),
    rule(
        r"\b(?P<word>[Aa])rr\.(?=[ ](?:[A-Z][a-z]+[ ]){1,3}"
        r"(?:Sta|Stn|Station|Airport)\b\.?[ ](?:at[ ])?\d)",
        r"\g<word>rrives",
        ("arr",),
    ),
    rule(r"\b(?P<name>(?:Union|Penn|Central)[ ])Sta\.(?!\w)", r"\g<name>Station", ("Sta.",)),
    rule(_SIDE, _side),
    rule(r"(?<=\d)-spd\b", "-speed", ("spd",)),
    rule(
        r"(?<=\d)[ -]yr[ -]old"
        r"(?=[ ](?!and|or|now|today|when|but|who|that|with|as|in|on|at|is|was|then|because|after|before|since|already"
        r"|soon|too|also|each|from|under|yet|plus|next|last|this|the|they|right|his|her|according)[a-z]{3})",
        _year_old,
        ("yr",),
    ),
    rule(r"\bblk(?:/|[ ](?:&|and)[ ])wht\b", "black and white", ("blk",)),
    rule(
        r"(?<=\d[ ])dz\b\.?(?=[ ](?:donut|doughnut|egg|rose|cookie|bagel|roll|muffin|oyster|wing|tamale)s?\b)",
        "dozen",
        ("dz",),
    ),
    rule(r"(?<=\d[ ])bu\.(?=[ ][a-z])", "bushels", ("bu",)),
    rule(
        r"(?<![\w.])(?<!\d[ ])gr\.(?=[ ](?:beef|turkey|pork|chuck|cinnamon|cumin|pepper|ginger)\b)", "ground", ("gr",)
    ),
    rule(r"\bUTD(?=[ ](?:on|with)[ ](?:all[ ])?(?:shots|vacc\w+|vax)\b)", "up to date", ("UTD",)),
    rule(
        r"\b(?P<which>(?:[Tt]his|[Ll]ast|[Nn]ext|per|each|every)[ ])mo\b(?:\.(?=,|[ ][a-z])|(?!\.))",
        r"\g<which>month",
        ("mo",),
    ),
    rule(r"(?<=\d)[ ]?[Ww]/kg\b", " watts per kilogram", ("kg",)),
    rule(r"(?<![\w.])(?P<sides>\d{1,2}x\d{1,2})x(?P<long>\d{1,2})s\b", _boards, ("digit x",)),
    rule(r"\bnr\.?(?=[ ](?:the[ ]|\d{1,3}(?:st|nd|rd|th)\b|[A-Z][a-z]))", "near", ("nr",)),
    rule(
        r"(?P<what>\b(?:EPS|earnings|revenue|sales|consensus)[ ])est\.?(?=[ ](?:by|at)\b|\s*$)",
        r"\g<what>estimates",
        ("est",),
    ),
    rule(_TURN, _turn, (" L", " R", " rt", " lt")),
    rule(
        r"(?P<before>\b(?:on|to|onto|[Tt]ake|via|from|along)[ ])?(?<![\w.])Rt(?(before)\.?|\.)"
        r"(?=[ ]\d{1,3}[A-Z]?(?!\w|[.,:/]\d|[ ]?(?:mm|cm|mg|ml|dB|min|x)\b))",
        lambda match: f"{match['before'] or ''}Route",
        ("rt",),
    ),
    rule(
        r"(?<![\w.])(?P<count>\d{1,2})[ ]blks?\b\.?"
        r"(?=[ ](?:of|from|to|past|up|down|away|north|south|east|west|[NSEW])\b)",
        _count("block"),
        ("blk", "blks"),
    ),
    rule(r"(?<![\w.])(?P<count>\d{1,2})[ ]pkg\b\.?(?![\w/:_-])", _count("package"), ("pkg",)),
    rule(
        r"\b(?P<whose>(?:[Yy]our|[Tt]he|[Mm]y|[Tt]his|a)[ ])pkg\b\.?"
        r"(?![/:_-]|[ ](?:install|up|add|command|manager|from)\w*)",
        r"\g<whose>package",
        ("pkg",),
    ),
    rule(r"(?P<what>\b(?:\d{1,2}-\d{1,2}-\d{1,2}|liquid|lawn|plant)[ ])fert\.", r"\g<what>fertilizer", ("fert",)),
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
    rule(r"(?<![\w/.])(?<!\d[ \-–])(?:1/2|½)(?=[ ](?:off|price|priced)\b)", "half", ("off", "price", "priced")),
    rule(r"\b(?P<which>(?:[Mm]aster|[Gg]uest|[Mm]ain|[Pp]rimary|[Ss]pare)[ ])BR\b", r"\g<which>bedroom", ("BR",)),
    rule(r"\b(?P<word>[Bb])lt\.?(?=[ ](?:in[ ])?(?:1[89]|20)\d\d\b)", r"\g<word>uilt", ("blt",)),
    rule(
        r"\b(?P<word>[Gg])rad\.(?=[ ](?:in[ ](?:[A-Z][a-z]+[ ])?)?\d{4}\b)",
        r"\g<word>raduated",
        ("grad",),
    ),
)
"""Run before the rules for abbreviations, units and numbers."""

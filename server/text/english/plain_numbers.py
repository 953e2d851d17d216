"""What remains of numbers: decades, ordinals, years, percentages, signs, cardinals, letters beside digits."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.rules import Rule, rule

_DECADE = r"(?<![\w.,$€£])(?P<apostrophe>')?(?P<number>1\d|20|[1-9])?(?P<tens>\d0)(?:'?s)(?!\w)"
_DECADE_BEFORE = re.compile(
    r"(?:\b(?:the|her|his|their|my|our|your|its|in|mid|late|early|since|from|of|and|or|to|high|low|that|those|upper|lower)[ -]|^)$",
    re.I,
)
_DECADES = r"(?<![\w.,$€£])(?P<start>(?:1\d|20)\d0s)[ ]?[-–][ ]?'?(?P<end>(?:1\d|20)?\d0)'?s(?!\w)"
_A_MONTH = r"(?<=[\d.])-a-(?=(?:day|night|week|month|year)\b)"
_ISH = r"(?<=[\d%])-?ish(?!\w)"
_SHORT_YEAR = r"(?<!\w)'(?P<year>\d\d)(?!\w)(?!')"
_ERA = r"(?<![\w.,$])(?P<number>\d{1,5})(?P<gap>[ ]?)(?P<era>BCE|BC|CE|AD|B\.C\.E\.|B\.C\.|A\.D\.|C\.E\.)(?!\w)"
_ERA_BEFORE = r"(?<!\w)(?P<era>AD|A\.D\.)[ ](?P<number>\d{1,4})(?![\w,]\d|\w)"
_ORDINAL = r"(?<![\w.])(?P<number>\d{1,3}(?:,\d{3})+|\d{1,15})(?:st|nd|rd|th|ST|ND|RD|TH|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)(?![^\W_])"
_PERCENT = rf"""
    (?P<sign>(?<![\w)])[-+−±~])? (?<![\w.,]) (?P<number>{numbers.NUMBER}|\.\d+)
    (?:[ ]?%?[ ]?[-–][ ]?(?P<to>{numbers.NUMBER}))? [ ]?(?P<mark>%|‰|pct\b\.?|percent\b)
"""
_YEAR = (
    r"(?<![\w.,$€£#/'])(?P<number>1[1-9]\d\d|20\d\d|10\d\d|(?<=[Bb]y[ ])21\d\d|(?<=[Ii]n[ ])21\d\d)(?![\w%/°]|[.,]\d)"
)
_COUNTED = re.compile(
    r"[ -](?:(?!(?:was|is|has|its|this|plus|as|us|yes|versus|always|perhaps|across|unless|thus|towards|besides|sales|"
    r"elections|models|olympics|awards|finals|games|results|tax(?:es)?|series|census|crisis|news|saw|was)\b)[a-z]{2,}s\b|"
    r"people\b|men\b|women\b|children\b|times\b|feet\b|fish\b|sheep\b|police\b|more\b|of (?:the|them|us|these|those|my)\b|"
    r"(?:different|new|other|small|large|extra|old|young|square|cubic|total|separate|unique|active|registered|daily|"
    r"local|square) [a-z]+s\b|(?:square|cubic) )"
)
_MEASURED = re.compile(
    r"(?:about|approximately|over|nearly|almost|than|costs?|weighs?|least|most|around|up to|counts?|equals|another|plus|"
    r"minus|times|by a factor of|all|these|those|some|total of|roughly|just|only|score[ds]?|"
    r"[a-z]\sof|number|step|every|exactly|times|is|are|was|were|has|have|had|need|got|earn(?:ed)?|paid|pay)\s$"
)
_YEAR_BEFORE = re.compile(
    r"(?:\b(?:in|since|until|till|by|from|of|year|during|before|after|around|circa|early|late|mid|for|spring|summer|"
    r"autumn|fall|winter|and|to|through|between|class|copyright|the|[A-Z][a-z]+)[ -])$",
    re.I,
)
_SIGNED = rf"(?<![\w)])(?P<sign>[-+−±])(?P<number>{numbers.NUMBER})"
_ABOUT = r"(?<![\w~])[~≈∼][ ]?(?=\d|[$€£])"
_TIMES = rf"(?<![\w.,])(?P<number>{numbers.NUMBER})[x×](?!\w)"
_PLUS = rf"(?<![\w.,])(?P<number>{numbers.NUMBER})\+(?![\w+])"
_DECIMAL = r"(?<![\w.])\.\d+"
_DOTTED_GROUPS = r"(?<![\w.,])\d{1,3}(?:\.\d{3}){2,8}(?![\w.])"
_SPACED_GROUPS = r"(?<![\w.,\-])[1-9]\d{0,2}(?:[ ]000){1,8}(?![\w\-]|[.,]\d|[ ]\d)"
_EUROPEAN_GROUPS = (
    r"(?<=€)\d{1,3}(?:\.\d{3})+(?![\d,.]\d|\d)|(?<![\w.,])\d{1,3}(?:\.\d{3})+(?=[ ]?(?:€|EUR\b|euros?\b))"
)
_EUROPEAN = r"(?<=€)\d{1,3}(?:\.\d{3})*,\d{2}(?!\d)|(?<![\w.,])\d{1,3}(?:\.\d{3})*,\d{2}(?=[ ]?(?:€|EUR\b|euros?\b))"
_NUMBER = r"(?<!\d)\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?"
_BESIDE = re.compile(r"[^\W\d_]")
_LEADING = r"(?<![\w.])(?P<letters>[A-Za-z]{1,12})(?P<number>\d{1,4})(?P<tail>[A-Za-z]{0,3})(?!\w|[.]\d)"
_TRAILING = r"(?<![\w.,])(?P<number>\d{1,4})(?P<letters>[A-Za-z]{1,3})(?!\w)"
_SUFFIXES = frozenset("st nd rd th".split())


def _decade(match: re.Match[str]) -> str:
    century, tens = match["number"], match["tens"]
    if century:
        return numbers.decade(int(century + tens)) if len(century) > 1 or tens != "00" else match[0]
    if tens == "00":
        return match[0]
    if match["apostrophe"] or _DECADE_BEFORE.search(match.string, max(0, match.start() - 8), match.start()):
        return numbers.decade(int(tens))
    return match[0]


def _percent(match: re.Match[str]) -> str:
    sign = {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus ", "~": "about "}.get(
        match["sign"] or "", ""
    )
    words = numbers.number(match["number"]) + (f" to {numbers.number(match['to'])}" if match["to"] else "")
    return f"{sign}{words} {'per mille' if match['mark'] == '‰' else 'percent'}"


def _year(match: re.Match[str]) -> str:
    """Return a number of four digits as a year, where nothing shows that it counts something."""
    number = match["number"]
    before = match.string[max(0, match.start() - 18) : match.start()]
    if not _YEAR_BEFORE.search(before) or re.search(r"\bfor $", before):
        if _COUNTED.match(match.string, match.end()) or _MEASURED.search(before):
            return (
                numbers.cardinal(int(number)) if number[2:] != "00" or number[1] == "0" else numbers.year(int(number))
            )
    elif _COUNTED.match(match.string, match.end()) and not re.search(
        r"\b(?:in|since|until|by|during|year) $", before, re.I
    ):
        return numbers.cardinal(int(number))
    return numbers.year(int(number))


def _era(match: re.Match[str]) -> str:
    number = match["number"]
    words = numbers.year(int(number)) if len(number) == 4 else numbers.cardinal(int(number))
    return f"{words} {letters.spell(match['era'])}"


def _number(match: re.Match[str]) -> str:
    """Return a plain number; beside a letter it is set apart from it."""
    text, (start, end) = match.string, match.span()
    before = " " if start and _BESIDE.match(text[start - 1]) else ""
    after = " " if end < len(text) and _BESIDE.match(text[end]) else ""
    return f"{before}{numbers.number(match[0])}{after}"


def _leading(match: re.Match[str]) -> str:
    head, tail = match["letters"], match["tail"]
    words = [letters.spell(head) if len(head) <= 2 or head.isupper() and not letters.is_word(head) else head]
    words.append(numbers.grouped(match["number"]))
    if tail:
        words.append(letters.spell(tail))
    return " ".join(words)


def _trailing(match: re.Match[str]) -> str:
    if match["letters"] in _SUFFIXES:
        return match[0]
    return f"{numbers.grouped(match['number'])} {letters.spell(match['letters'])}"


EARLY: tuple[Rule, ...] = (
    rule(_ERA, _era, ("capitals", "B.C", "A.D", "C.E")),
    rule(
        _ERA_BEFORE,
        lambda match: f"{letters.spell(match['era'])} {numbers.year(int(match['number']))}",
        ("AD ", "A.D. "),
    ),
    rule(
        _DECADES,
        lambda match: f"{numbers.decade(int(match['start'][:-1]))} to {numbers.decade(int(match['end']))}",
        ("0s-", "0s–", "0s –", "0s -"),
    ),
    rule(_DECADE, _decade, ("0s", "0's")),
    rule(_SHORT_YEAR, lambda match: numbers.year(int(match["year"])), "quoted digit"),
    rule(_PERCENT, _percent, "digit %"),
)
"""Run before units: "the 90s" is a decade, "90s" elsewhere a duration."""

FIRST: tuple[Rule, ...] = (
    rule(_ISH, " ish", "ish"),
    rule(_A_MONTH, " a ", "-a-"),
    rule(_DOTTED_GROUPS, lambda match: match[0].replace(".", ""), "digit."),
    rule(_SPACED_GROUPS, lambda match: match[0].replace(" ", ""), " 000"),
    rule(_EUROPEAN_GROUPS, lambda match: match[0].replace(".", ""), ("€", "EUR", "euro", "euros")),
    rule(_EUROPEAN, lambda match: match[0].replace(".", "").replace(",", "."), ("€", "eur", "euro", "euros")),
)
"""Run before everything with numbers: other ways to group digits."""

RULES: tuple[Rule, ...] = (
    rule(_ORDINAL, lambda match: numbers.ordinal(int(match["number"].replace(",", ""))), "ordinal digit"),
    rule(_YEAR, _year, "three digits"),
    rule(_ABOUT, "about ", tuple("~≈∼")),
    rule(_TIMES, lambda match: f"{numbers.number(match['number'])} times", "digit x"),
    rule(_PLUS, lambda match: f"{numbers.number(match['number'])} plus", "digit +"),
    rule(
        _SIGNED,
        lambda match: (
            {"+": "plus ", "±": "plus or minus "}.get(match["sign"], "minus ") + numbers.number(match["number"])
        ),
        "-digit",
    ),
    rule(_LEADING, _leading, "letter digit"),
    rule(_TRAILING, _trailing, "digit letter"),
    rule(_DECIMAL, lambda match: numbers.number(match[0]), "point digit"),
    rule(_NUMBER, _number),
)

"""Years and decades as words: 1984, the 1990s, '80s, her 30s, 44 BC, the 1960s–70s."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.numbers import NOT_LASTING
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_DECADE = r"(?<![\w.,$€£])(?P<apostrophe>')?(?P<century>1\d|20|[1-9])?(?P<tens>\d0)'?s(?!\w)"
_DECADE_BEFORE = lazy(
    r"""
    (?: \b(?:the|her|his|their|my|our|your|its|in|mid|late|early|since|from|of|and|or|to|high|low|that|those|upper|
        lower)[ -] | ^ )$
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Words before a decade: "the 90s". Without one, "90s" is a duration."""
_DECADE_AFTER = lazy(
    r"[ -](?:music|songs?|movies?|films?|rock|pop|hip|hits?|fashion|kids?|shows?|sitcoms?|style|hair|vibes?|nostalgia|"
    r"cartoons?|bands?|era|aesthetic|classics?|babies|baby|playlist|party|throwback|themed?)\b"
)
"""Words after a decade: "90s music"."""
_SECONDS_BEFORE = lazy(r"\d[1-9]s (?:to|or|and) $")
"""From 12s to 10s."""
_LATE_DECADE_AFTER = lazy(
    r"[ ](?:house|techno|disco|rap|grunge|punk|metal|funk|soul|jazz|synth|cars?|anime|jeans|outfits?|toys?|games?)\b"
)
"""The same for 70s to 90s, which are seldom durations."""
_LATE_DECADE = 70
_DECADES = r"(?<![\w.,$€£])(?P<start>(?:1\d|20)\d0)s[ ]?[-–][ ]?'?(?P<end>(?:1\d|20)?\d0)'?s(?!\w)"
_MANY_OF = r"(?<![\w.,$€£])(?P<number>1(?:0{1,3}(?=s[ ]of\b)|0{0,2},000))s(?!\w)"
_MANY = {
    "10": "tens",
    "100": "hundreds",
    "1000": "thousands",
    "10000": "tens of thousands",
    "100000": "hundreds of thousands",
}
_SHORT = r"(?<!\w)'(?P<year>\d\d)(?!\w)(?!')"
_PLURALS = rf"""
    (?<![\w.,$€£:/-]) {NOT_LASTING} (?P<number>[1-9]\d{{2}}[1-9])s(?!\w)
"""
"""1099s: a number of four digits in the plural. Few durations have as many seconds."""
_ERA = r"""
    (?<![\w.,$]) (?:(?P<start>\d{1,5})[ ]?[-–][ ]?)?(?P<number>\d{1,5})[ ]?
    (?P<era>BCE|BC|CE|AD|B\.C\.E\.|B\.C\.|A\.D\.|C\.E\.) (?!\w)
"""
_ERA_BEFORE = r"(?<!\w)(?P<era>AD|A\.D\.)[ ](?P<number>\d{1,4})(?![\w,]\d|\w)"
_YEAR = r"""
    (?=[12])
    (?<![\w.,$€£#/'])
    (?P<number> 1\d\d\d | 20\d\d | (?<=[Bb]y[ ])21\d\d | (?<=[Ii]n[ ])21\d\d )
    (?![\w%/°]|[.,]\d)
"""
_NOT_COUNTED = (
    "was is has its this plus as us yes versus always perhaps across unless thus towards besides sales elections "
    "models olympics awards finals games results tax taxes series census crisis news saw"
).split()
"""Words that end in s but do not follow a count: they are not plurals, or a year describes them: "2020 elections"."""
_COUNTED = lazy(
    rf"""
    [ -](?: (?!(?:{"|".join(_NOT_COUNTED)})\b) [a-z]{{2,}}s\b
          | (?:people|men|women|children|feet|fish|sheep|police|more)\b
          | of[ ](?:the|them|us|these|those|my)\b
          | (?:different|new|other|small|large|extra|old|young|total|separate|unique|active|registered|daily|
               local)[ ][a-z]+s\b
          | (?:square|cubic)[ ] )
    """,
    re.VERBOSE,
)
"""Text after a number that is a count, not a year."""
_MEASURED = lazy(
    r"""
    (?: about|approximately|over|nearly|almost|than|costs?|weighs?|least|most|around|up[ ]to|counts?|equals|another|
        plus|minus|times|by[ ]a[ ]factor[ ]of|all|these|those|some|total[ ]of|roughly|just|only|score[ds]?|[a-z][ ]of|
        number|step|every|exactly|is|are|was|were|has|have|had|need|got|earn(?:ed)?|paid|pay )[ ]$
    """,
    re.VERBOSE,
)
"""Text before a number that is a count, not a year."""
_YEAR_BEFORE = lazy(
    r"""
    \b(?: in|since|until|till|by|from|of|year|during|before|after|around|circa|early|late|mid|spring|summer|autumn|fall|
          winter|and|to|through|between|class|copyright|the|[A-Z][a-z]+ )[ -]$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SURELY_BEFORE = lazy(r"\b(?:in|since|until|by|during|year) $", re.IGNORECASE)
_CONTEXT = 18


def _decade(match: re.Match[str]) -> str:
    century, tens = match["century"], match["tens"]
    if _SECONDS_BEFORE.search(match.string, max(0, match.start() - 8), match.start()):
        return match[0]
    if century:
        return numbers.decade(int(century + tens)) if len(century) > 1 or tens != "00" else match[0]
    if tens == "00":
        return "two thousands" if match["apostrophe"] else match[0]
    if int(tens) <= 30 and match.string[max(0, match.start() - 3) : match.start()].lower() == "in " and not century:
        return match[0]
    if (
        match["apostrophe"]
        or _DECADE_BEFORE.search(match.string, max(0, match.start() - 8), match.start())
        or _DECADE_AFTER.match(match.string, match.end())
        or (int(tens) >= _LATE_DECADE and _LATE_DECADE_AFTER.match(match.string, match.end()))
    ):
        return numbers.decade(int(tens))
    return match[0]


def _year(match: re.Match[str]) -> str:
    """Return a number of four digits as a year, unless its context shows that it is a count."""
    text, number = match.string, int(match["number"])
    before = text[max(0, match.start() - _CONTEXT) : match.start()]
    counted = _COUNTED.match(text, match.end()) is not None
    if _YEAR_BEFORE.search(before):
        counts = counted and not _SURELY_BEFORE.search(before)
    else:
        counts = counted or _MEASURED.search(before) is not None
    # "1500" is read "fifteen hundred" as a count, too.
    hundreds = number % 100 == 0 and number // 100 % 10 != 0
    return numbers.cardinal(number) if counts and not hundreds else numbers.year(number)


def _era(match: re.Match[str]) -> str:
    years = [each for each in (match["start"], match["number"]) if each]
    words = " to ".join(numbers.year(int(each)) if len(each) == 4 else numbers.cardinal(int(each)) for each in years)
    return f"{words} {letters.spell(match['era'])}"


def _decades(match: re.Match[str]) -> str:
    return f"{numbers.decade(int(match['start']))} to {numbers.decade(int(match['end']))}"


def _short(match: re.Match[str]) -> str:
    year = int(match["year"])
    return f"oh {numbers.cardinal(year)}" if 0 < year < 10 else numbers.year(year)


EARLY: tuple[Rule, ...] = (
    rule(_ERA, _era, ("bc", "bce", "ce", "ad", "B.C", "A.D", "C.E")),
    rule(
        _ERA_BEFORE,
        lambda match: f"{letters.spell(match['era'])} {numbers.year(int(match['number']))}",
        ("AD ", "A.D. "),
    ),
    rule(_MANY_OF, lambda match: _MANY[match["number"].replace(",", "")], ("0s",)),
    rule(_DECADES, _decades, ("0s-", "0s–", "0s –", "0s -")),
    rule(_DECADE, _decade, ("0s", "0's")),
    rule(_SHORT, _short, "quoted digit"),
    rule(_PLURALS, lambda match: numbers.plural_number(numbers.year(int(match["number"]))), r"\d\d\d\ds"),
)
"""Run before units: "the 90s" is a decade, "90s" elsewhere a duration."""

RULES: tuple[Rule, ...] = (rule(_YEAR, _year, r"\d\d\d\d"),)

"""Dates as words: 2024-03-15, 10/12/2024, 3 Mar 2024, March 3rd, 12/25, 31.12.2025. See also ``weekdays``."""

from __future__ import annotations

import re

from server.text.english import letters, numbers, times
from server.text.english.rules import Rule, alternatives, beside, rule
from server.text.english.weekdays import DAYS_LONG, DAYS_SHORT, SHORT_DAYS, day_name
from server.text.patterns import lazy

MONTHS = "January February March April May June July August September October November December".split()
_SHORT_MONTHS = {name[:3].lower(): name for name in MONTHS} | {"sept": "September"}
SHORT_MONTHS = frozenset(_SHORT_MONTHS)
MONTH_WORDS = SHORT_MONTHS | {name.lower() for name in MONTHS}
_NAMES = [name for each in MONTHS for name in (each, each.upper(), each.lower()) if name not in ("march", "may")]
"""Names of months in any case, except "march" and "may", which are also other words."""
_SHORT = [name for each in "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec".split() for name in (each, each.upper())]
MONTH = rf"(?:{'|'.join(_NAMES)}|(?:{alternatives(_SHORT)})\b\.?)"
_MONTHS = "|".join(MONTHS)
_WEEKDAY = rf"(?:(?P<weekday>{DAYS_SHORT}\b\.?|{DAYS_LONG}),?[ ])?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?P<year>1\d{3}|20\d{2})"
_ISO = rf"""
    (?<![\w\-/.]) {_YEAR} (?P<mark>[-/.]) (?P<month>0?[1-9]|1[0-2]) (?P=mark) {_DAY}
    (?: [T ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d) (?::(?P<second>[0-5]\d)(?:[.,]\d+)?)?
        (?P<zone>Z|[+-]\d\d:?\d\d)? )?
    (?![\w\-/]|\.\d)
"""
_NUMERIC = rf"""
    (?<![\w\-/.]) {_WEEKDAY} (?P<first>\d{{1,2}}) (?P<mark>[-/.]) (?P<second>\d{{1,2}}) (?P=mark)
    (?P<year>\d{{4}}|\d{{2}})
    (?![\w\-/]|\.\d)
"""
_COUNT_AFTER_MONTH = lazy(
    r"[ ](?:miles|people|men|women|more|minutes|hours|days|weeks|months|years|times|percent|dollars|cups|points)\b"
)
"""What is counted after the name of a month: "in May 5 people came"."""
_MONTH_DAY = rf"""
    (?<!\w) {_WEEKDAY} (?P<month>{MONTH})[ ](?:the[ ])?{_DAY}(?:st|nd|rd|th)?(?![\w:%]|[.,]\d|[ ][ap]\.?m)
    (?:[ ]?[-–][ ]?(?P<to>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\w:%]))?
    (?:,?[ ]{_YEAR}(?![\w%]|[.,:]\d)|,[ ]?'(?P<short>\d\d)(?!\w))?
"""
_DAY_MONTH = rf"""
    (?<![\w.,:$£€]) {_WEEKDAY} (?P<the>[Tt]he[ ])?{_DAY}(?:st|nd|rd|th)?
    (?:[ ]?[-–][ ]?(?P<to>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?)?
    (?:[ ]|-)(?P<of>of[ ])?(?P<month>{MONTH})(?!\w)
    (?:(?:,?[ ]|-){_YEAR}(?![\w%]|[.,:]\d)|[ ]'(?P<short>\d\d)(?!\w))?
"""
_DAY_FIRST = rf"""
    (?P<before>\b(?: by|until|till|due|ends?|ending|expires?|midnight|deadline:?|starts?
      |starting|dated|{DAYS_LONG},? ) [ ])?
    (?<![\w\-/.]) (?!24/7(?!\d)|16/9(?!\d)) (?P<day>1[3-9]|2\d|3[01])/(?P<month>0?[1-9]|1[0-2])
    (?![\w/%]|\.\d|[ ](?:to|odds|inch))
    (?(before)|(?=[ ](?:@|at)[ ]?\d{{1,2}}(?::\d\d|[ ]?[ap]m)))
"""
"""Ends 31/10: the day before the month."""
_SHORT_YEAR = rf"""
    (?<![\w.,:$£€-]) {_DAY} (?P<mark>[ ]|-) (?P<month>{"|".join(each.upper() for each in _SHORT_MONTHS)}
      |(?:{alternatives(_SHORT)})(?=-)) (?P=mark) (?P<year>[0-4]\d|9\d) (?![\w%:-]|[.,]\d)
"""
"""30 SEP 25, 30-Sep-25."""
_FLIGHT_DATE = (
    rf"(?<!\w)(?P<day>[0-3]\d)(?P<month>{'|'.join(each.upper() for each in _SHORT_MONTHS)})(?P<year>(?:20)?\d\d)?(?!\w)"
)
"""02SEP."""
_CLOSE_YEAR = r"(?<=\d),(?=(?:1[5-9]|20)\d\d(?![\w,]|\.\d))"
"""May 5,2024: a comma without a space."""
_DAY_END = lazy(rf"(?<!\w){MONTH}[ ]\d{{1,2}}$", re.VERBOSE)
_MONTH_YEAR = rf"(?<!\w)(?P<month>{MONTH}),?[ ](?:of[ ])?{_YEAR}(?![\w%]|[.,:]\d)"
_SLASHED = rf"""
    (?P<before>
        \b(?: (?i:(?<=/[123]\d[ ])(?:and|to|through|thru)|on|cob|eod|rsvp[ ]by|by
              |until|till|since|due|dates?:?|dated|from|before|after
              |week[ ]of|avail(?:able|\.)?|seen|arrived|sent:|born
              |ordered|delivered|shipped|trip|exam|deadline:?
              |start(?:s|ing)?|begin(?:s|ning)?|end(?:s|ing)?
              |(?:depart(?:s|ing|ure:?)?|return(?:s|ing)?|arriv(?:es?|ing|al:?)|check[ -](?:in|out):?)
                (?=[ ][01]\d/[0-3]\d(?:[,.;:)]|\s*$|[ ](?:and|at|from|to|for)[ ]))
              |moving|leaving|opens?|closes?|ships|launch(?:es|ing)|effective|expires?|notes(?=[ ]\d+/\d+:))
            | {DAYS_LONG},? | {DAYS_SHORT}[.,]? )[ ]
    )?
    (?<![\w\-/.]) (?P<month>0?[1-9]|1[0-2])/{_DAY} (?![\w/%]|\.\d)
    (?![ ]?(?:inch|cup|tea|table|mile|pound|hour|of))
    (?P<time>(?=[ ](?:@|at)[ ]?\d{{1,2}}(?::\d\d|[ ]?[ap]\.?m)|[ ]@[ ]?\d{{4}}\b))?
"""
_MONTH_SLASH_YEAR = r"(?<![\w\-/.])(?P<month>0?[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![\w/%]|\.\d)"
_NOW = r"(?i:present)\b(?=[).,;:|!?\s]|$)|(?i:now|today|current)\b(?=[).;|]|\s*$)"
_UNTIL_NOW = rf"(?:(?<=[\s/(](?:19|20)\d\d)|(?<=^(?:19|20)\d\d))[ ]?[-–][ ]?(?={_NOW})"
"""2019–present."""
_MONTHS_OF_YEARS = rf"""
    {_MONTH_SLASH_YEAR}[ ]?[-–][ ]?
    (?: (?P<last_month>0?[1-9]|1[0-2])/(?P<last_year>(?:19|20)\d\d)(?![\w/%]|\.\d)
      | (?P<now>{_NOW}) )
"""
"""06/2014 – 09/2018."""
_DOTTED_SHORT = r"""
    (?P<before>\b(?:on|by|until|till|from|since|due|dated|of|for|before|after)[ ])
    (?P<day>[0-3]\d)\.(?P<month>[01]\d)\.(?P<year>\d\d) (?![\w.\-]\w|\w)
"""
_DAY_NUMBER = rf"(?<!\w)(?P<weekday>{DAYS_SHORT})[ ]{_DAY}(?=[ ]?(?:to|and|until|[-–])[ ]?{DAYS_SHORT}[ ]\d)"
"""The first day of "Sat 14 to Sun 22 Feb"."""
_SEPTEMBER_11 = r"(?<![\w\-/.])9/11(?![\w/%])"
_SHORT_DATES = r"""
    (?<![\w/.,\-]) (?P<month>1[0-2]|0?[1-9])/(?P<day>3[01]|[12]\d|0?[1-9]) [ ]?[-–][ ]?
    (?P<last_month>1[0-2]|0?[1-9])/(?P<last_day>3[01]|[12]\d|0?[1-9]) (?![\w/"″]|[ ](?:inch|cup|in|mile|tsp|tbsp)\b)
"""
"""12/24–1/2."""
_FRACTION_DAYS = frozenset("2 3 4 8 16".split())
_CARD = r"""
    (?P<before>\b(?:[Cc]ards?|Visa|VISA|Mastercard|MasterCard|Amex|AMEX)\b[^\n;!?]{0,60}?\b(?:\d{4}|ending|number)\b
      [^\n;!?]{0,40}?[ ,(])?
    \b(?P<word>[Ee]xp(?:ires|iry)?|[Ee]xp(?:iration)?\.?[ ]date|[Vv]alid[ ]thru)\.?:?[ ]
    (?P<month>0[1-9]|1[0-2])/(?P<year>2[4-9]|3\d) (?(before)(?![\w/])|(?=,?[ ]CV[VC]))
"""
"""The end of a card: card ending in 1234, exp. 09/27."""
_MONTH_RANGE = rf"(?<!\w)(?P<start>{MONTH})[ ]?[-–][ ]?(?P<end>{MONTH})(?!\w)"
_SPOKEN_RANGE = rf"""
    (?<!\w) (?P<start>(?:{_MONTHS})[ ](?:[a-z]+[ ,\-]{{1,2}}){{0,4}}[a-z]+) [ ]?[-–][ ]? (?=(?:{_MONTHS})[ ][a-z])
"""
"""A range of two dates that earlier rules have put into words."""
_SPOKEN_DAYS = rf"""
    (?P<start>of[ ](?:{_MONTHS})) [ ]?[-–][ ]? (?=(?:{DAYS_LONG},[ ])?the[ ][a-z\-]+[ ]of[ ](?:{_MONTHS}))
"""
_COMPACT = (
    r"(?<![\w.,$\-/#])(?P<year>19\d\d|20\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])(?![\w\-/]|[.,]\d)"
)
_FISCAL = r"(?<!\w)(?P<name>FY|fy|H[12](?=[ ']|20)|Q[1-4])[ ]?'?(?P<year>(?:20)?\d\d)(?!\w)"
_CENTURY = r"(?<=\d(?:st|nd|rd|th)[ -])[cC]\."
_DENOMINATORS = (16, 32, 64)
_SPOKEN_DATES = lazy(rf"\b(?:{_MONTHS})[ ][a-z-]+[ ]to[ ](?:{_MONTHS})[ ][a-z-]+\b")
"""A range that another rule has put into words: what looks like a fraction after it is a date, too."""
_SHARE_AFTER = lazy(r"[ ](?:an?|the|full|off|done|way|price)\b")
_MEASURED_BEFORE = lazy(r"\b(?:is|was|reads?|at|about|only)[ ]$")
_COUNT_BEFORE = lazy(
    r"\b(?:HP|MP|XP|SP|Room|Flat|Suite|Unit|(?i:health|mana|score|progress|step|page|lesson|level|attempt)):? $"
)
"""Words before a number of a total: MP 12/30."""
_HOLIDAY_AFTER = lazy(
    r" (?:BBQ|barbecue|sales?|part(?:y|ies)|weekend|parade|fireworks|picnic|holiday|celebrations?|traditions?)\b",
    re.IGNORECASE,
)
_NO_ARTICLE = lazy(
    r"(?:\d(?:st|nd|rd|th)?[ ](?:and|or|to)"
    r"|\b(?:an?|this|that|next|last|every|each|happy|merry|my|your|his|her|our|their))[ ]$",
    re.IGNORECASE,
)
"""Words after which "4th of July" has no "the"."""


def month_name(text: str) -> str:
    """Return the full name of a month or its abbreviation."""
    return _SHORT_MONTHS[text.lower().rstrip(".")[:3]]


def _spoken(month: str, day: int, year: str | None) -> str:
    words = f"{month} {numbers.ordinal(day)}"
    return f"{words}, {_year(year)}" if year else words


def _year(text: str) -> str:
    number = int(text)
    if len(text) == 2:
        number += 2000 if number <= 40 else 1900
    return numbers.year(number)


def _iso(match: re.Match[str]) -> str:
    words = _spoken(MONTHS[int(match["month"]) - 1], int(match["day"]), match["year"])
    if match["hour"]:
        words += f", {times.clock(int(match['hour']), int(match['minute']))}"
        if match["second"] and (second := int(match["second"])):
            words += f" and {numbers.plural(str(second), 'second', 'seconds')}"
        words += " U T C" if match["zone"] == "Z" else ""
    return words


def _numeric(match: re.Match[str]) -> str:
    first, second, mark = int(match["first"]), int(match["second"]), match["mark"]
    if len(match["year"]) == 2 and mark != "/":
        return match[0]
    month, day = (second, first) if mark == "." or first > 12 else (first, second)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match[0]
    weekday = f"{day_name(match['weekday'])}, " if match["weekday"] else ""
    if mark == "." or first > 12:
        return f"{weekday}the {numbers.ordinal(day)} of {MONTHS[month - 1]}, {_year(match['year'])}"
    return weekday + _spoken(MONTHS[month - 1], day, match["year"])


def _flight_date(match: re.Match[str]) -> str:
    year = f", {_year(match['year'])}" if match["year"] else ""
    return f"the {numbers.ordinal(int(match['day']))} of {month_name(match['month'])}{year}"


def _day_first(match: re.Match[str]) -> str:
    return f"{match['before'] or ''}the {numbers.ordinal(int(match['day']))} of {MONTHS[int(match['month']) - 1]}"


def _dotted_short(match: re.Match[str]) -> str:
    day, month = int(match["day"]), int(match["month"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match[0]
    return f"{match['before']}the {numbers.ordinal(day)} of {MONTHS[month - 1]}, {_year(match['year'])}"


def _month_day(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 3) : match.start()]
    if before.lower() == "in " and _COUNT_AFTER_MONTH.match(match.string, match.end()):
        return match[0]
    weekday = day_name(match["weekday"])
    words = _spoken(month_name(match["month"]), int(match["day"]), None)
    if match["to"]:
        words += f" to {numbers.ordinal(int(match['to']))}"
    year = match["year"] or match["short"]
    return (f"{weekday}, " if weekday else "") + words + (f", {_year(year)}" if year else "")


def _day_month(match: re.Match[str]) -> str:
    weekday = day_name(match["weekday"])
    words = numbers.ordinal(int(match["day"]))
    if match["to"]:
        words += f" to {numbers.ordinal(int(match['to']))}"
    before = match.string[max(0, match.start() - 12) : match.start()]
    holiday = not before and _HOLIDAY_AFTER.match(match.string, match.end())
    the = match["the"] or ("" if (holiday or _NO_ARTICLE.search(before)) and not weekday else "the ")
    words = f"{the}{words} of {month_name(match['month'])}"
    stop = "." if match[0].endswith(".") and _ends_sentence(match) else ""
    year = match["year"] or match["short"]
    return (f"{weekday}, " if weekday else "") + words + (f", {_year(year)}" if year else "") + stop


def _ends_sentence(match: re.Match[str]) -> bool:
    return match.end() == len(match.string)


def _slashed(match: re.Match[str]) -> str:
    """Return month and day, if a preposition or the numbers show that this is not a fraction."""
    month, day = int(match["month"]), int(match["day"])
    before = match["before"] or ""
    if _COUNT_BEFORE.search(match.string, max(0, match.start() - 12), match.start()):
        return match[0]
    timed = match["time"] is not None and not _MEASURED_BEFORE.search(match.string, 0, match.start())
    if not _SHARE_AFTER.match(match.string, match.end()):
        timed = timed or _SPOKEN_DATES.search(match.string, 0, match.start()) is not None
    timed = timed or "/0" in match[0]
    if not before and not timed and (day <= 12 or day in _DENOMINATORS):
        return match[0]
    if before.strip().lower() in ("from", "by") and month < day <= 10:
        return match[0]
    if (short := before.strip(" .,")).lower() in SHORT_DAYS:
        before = f"{day_name(short)}, "
    return before + _spoken(MONTHS[month - 1], day, None)


def _fiscal(match: re.Match[str]) -> str:
    return f"{letters.spell(match['name'])} {numbers.year(int(match['year']))}"


def _month_year(match: re.Match[str]) -> str:
    return f"{month_name(match['month'])} {_year(match['year'])}"


def _century(match: re.Match[str]) -> str:
    return "century." if match[0].endswith(".") and _ends_sentence(match) else "century"


def _months_of_years(match: re.Match[str]) -> str:
    first = f"{MONTHS[int(match['month']) - 1]} {_year(match['year'])}"
    if match["now"]:
        return f"{first} to {match['now']}"
    return f"{first} to {MONTHS[int(match['last_month']) - 1]} {_year(match['last_year'])}"


def _card_end(match: re.Match[str]) -> str:
    month, year = MONTHS[int(match["month"]) - 1], numbers.year(2000 + int(match["year"]))
    word = "expires" if match["word"].lower() == "exp" else match["word"]
    return f"{match['before'] or ''}{word} {month} {year}"


def _close_year(match: re.Match[str]) -> str:
    return ", " if _DAY_END.search(match.string, max(0, match.start() - 14), match.start()) else ","


def _short_dates(match: re.Match[str]) -> str:
    if match["day"] in _FRACTION_DAYS and match["last_day"] in _FRACTION_DAYS:  # 1/2-3/4 of a cup
        return match[0]
    first, last = (
        f"{MONTHS[int(match[month]) - 1]} {numbers.ordinal(int(match[day]))}"
        for month, day in (("month", "day"), ("last_month", "last_day"))
    )
    return f"{first} to {last}"


_TWO_DAYS = rf"""
    (?P<the>\b[Tt]he[ ])? (?<![\w./])(?P<first>[12]?\d|3[01])/(?P<second>[12]?\d|3[01])
    (?=[ ](?:{_MONTHS})\b)
"""
"""The night of 12/13 August."""


def _two_days(match: re.Match[str]) -> str:
    first, second = int(match["first"]), int(match["second"])
    if second != first + 1:
        return match[0]
    return f"{match['the'] or 'the '}{numbers.ordinal(first)} and {second}"


FIRST: tuple[Rule, ...] = (
    rule(_CLOSE_YEAR, _close_year, "digit,digit"),
    rule(_UNTIL_NOW, " to ", ("present", "now", "today", "current")),
)
"""Run before commas in numbers are read."""

RULES: tuple[Rule, ...] = (
    rule(_TWO_DAYS, _two_days, "digit/"),
    rule(_SHORT_DATES, _short_dates, "digit/"),
    rule(
        _CARD,
        _card_end,
        ("exp", "expires", "expiry", "expiration", "valid"),
    ),
    rule(_CENTURY, _century, ("c.", "C.")),
    rule(_FLIGHT_DATE, _flight_date, beside("", "JFMASOND", spaced=False)),
    rule(_SHORT_YEAR, _flight_date, SHORT_MONTHS),
    rule(_DAY_FIRST, _day_first, "digit/"),
    rule(_FISCAL, _fiscal, ("fy", r"H\d", r"Q\d")),
    rule(_SEPTEMBER_11, "nine eleven", "9/11"),
    rule(_ISO, _iso, tuple(rf"\d\d\d\d{mark}\d" for mark in "-/.")),
    rule(_NUMERIC, _numeric, tuple(rf"{mark}\d{digit}{mark}\d" for mark in "-/." for digit in ("", r"\d"))),
    rule(_MONTHS_OF_YEARS, _months_of_years, "digit/"),
    rule(_MONTH_SLASH_YEAR, lambda match: f"{MONTHS[int(match['month']) - 1]} {_year(match['year'])}", "digit/"),
    rule(_DOTTED_SHORT, _dotted_short, r"\d.\d\d.\d"),
    rule(
        _DAY_NUMBER,
        lambda match: f"{day_name(match['weekday'])} the {numbers.ordinal(int(match['day']))}",
        SHORT_DAYS,
    ),
    rule(_MONTH_DAY, _month_day, MONTH_WORDS),
    rule(_DAY_MONTH, _day_month, MONTH_WORDS),
    rule(_MONTH_YEAR, _month_year, MONTH_WORDS),
    rule(
        rf"(?<!\w)(?P<month>{alternatives(_SHORT)})\b\.?(?=[ ]'\d\d(?!\w))",
        lambda match: month_name(match["month"]),
        "quoted digit",
    ),
    rule(_SPOKEN_RANGE, r"\g<start> to ", MONTH_WORDS),
    rule(_SPOKEN_DAYS, r"\g<start> to ", MONTH_WORDS),
    rule(
        _COMPACT,
        lambda match: _spoken(MONTHS[int(match["month"]) - 1], int(match["day"]), match["year"]),
        r"\d" * 8,
    ),
    rule(_SLASHED, _slashed, "digit/"),
    rule(
        rf"(?<![\w/])(?P<first>{MONTH})/(?P<last>{MONTH})(?![\w/])",
        lambda match: f"{month_name(match['first'])} slash {month_name(match['last'])}",
        MONTH_WORDS,
    ),
    rule(_MONTH_RANGE, lambda match: f"{month_name(match['start'])} to {month_name(match['end'])}", MONTH_WORDS),
)

"""Days of the week as words: Fri, Mon-Fri, SAT & SUN, Tues. 9-5, M/W/F 10-11, M-Th 8-4:30."""

from __future__ import annotations

import re

from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_SHORT_NAMES = {
    "mon": "Monday",
    "tue": "Tuesday",
    "tues": "Tuesday",
    "wed": "Wednesday",
    "weds": "Wednesday",
    "thu": "Thursday",
    "thur": "Thursday",
    "thurs": "Thursday",
    "fri": "Friday",
    "sat": "Saturday",
    "sun": "Sunday",
}
SHORT_DAYS = frozenset(_SHORT_NAMES)
DAYS_SHORT = r"(?:Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun)"
_DAYS_ANY = rf"(?:{DAYS_SHORT}|MON|TUES?|WED|THU(?:RS?)?|FRI|SAT|SUN|mon|tues?|wed|thu(?:rs?)?|fri)"
DAYS_LONG = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_DAY_BEFORE = rf"""
    (?<![\w.])(?P<day>{DAYS_SHORT})
    (?= :[ ] | [ ]the[ ]\d
      | [ ](?:at[ ]|@[ ]?)?\d{{1,2}}
        (?: [:.]\d\d | /\d{{1,2}}c\b | \d?/\d{{2,3}}\b
          | [ ]?[AaPp]\.?[Mm] | [ap]\b | [ ]?[-–][ ]?(?:\d|noon|midnight) )
      | (?<!Sat)[ ]at[ ](?:noon|midday|half|quarter|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b )
"""
_COUNTED_AFTER = lazy(r"[ ]\d+[ ]?[-–][ ]?\d+[ ](?:minutes?|mins?|hours?|times|years?|days|weeks|miles|percent)\b")
_LETTER_DAYS = {
    "M": "Monday",
    "T": "Tuesday",
    "Tu": "Tuesday",
    "W": "Wednesday",
    "Th": "Thursday",
    "F": "Friday",
    "Sa": "Saturday",
    "Su": "Sunday",
}
_LETTERS = "|".join(sorted(_LETTER_DAYS, key=len, reverse=True))
_LETTER_RANGE = r"""
    (?<![\w.'-]) (?P<first>M|Tu|T|W|Th)[-–](?P<last>Th|F|Sa|Su) (?![\w'-])
    (?: (?=[:,]?[ ](?:\d|only\b|from\b|noon\b|days\b|nights\b|shifts?\b|schedule\b)) | (?=\s*[.,;)]|\s*$) )
"""
"""M-F 9-5."""
_TIME_AFTER = lazy(r":?,?[ ](?:\d|only|from|noon)")
_TIME_BEFORE = lazy(r"(?:\d[ap]|\d ?[AaPp]\.?[Mm]\.?|\d[-–]\d{1,2}(?::\d\d)?),? $")
_LETTER_AFTER = rf"(?<=[,;/][ ])(?P<day>{_LETTERS})(?=[ ]\d{{1,2}}(?::\d\d)?[ ]?[ap]?m?[ ]?[-–][ ]?(?:\d|noon))"
"""The second day of "M-Th 8-4:30, F 8-noon"."""
_DAYS_SLASHED = r"(?<![\w/])(?:Tu|Th|[MTWF])(?:/(?:Tu|Th|[MTWF])){1,4}(?=[ ]\d)"
"""M/W/F 10-11."""
_LETTER_WEEK = lazy(r"(?<![\w.'-])(?:M|Tu?|W|Th)[-–/](?:Th|F|Sa|Su)(?![\w'-])")
_DAY_COLON = lazy(rf"\b{DAYS_SHORT}:[ ]")
_DAY_LINK = r"\.?(?:[ ]?[-–/&→][ ]?|,[ ](?:and[ ]|or[ ])?|[ ](?:and|or|to|thru)[ ])"
_DAYS = rf"(?<!\w){_DAYS_ANY}(?:{_DAY_LINK}{_DAYS_ANY}(?!\w)){{1,6}}"
"""Mon-Fri, SAT & SUN, Mon, Wed and Fri."""
_DAY_WORD = lazy(rf"\b{_DAYS_ANY}\b")
_AFTER_TIME = rf"""
    (?P<time>\b[ap]\.?m\.?[ ]|(?:(?<=\d)|(?<=\d[ ]))(?P<upper>[AP]M)[ ]) (?P<day>{DAYS_SHORT}) (?![\w'-])
    (?: \.(?=(?P<next>[ ][A-Z])?) | (?=[,;:)]|\s*$)
      | (?(upper)
          (?=[!?]|[ ](?:at|on|for|in|with|vs|through|until|and|to|from)\b)
        | (?=[ ](?!(?:down|up|in|by|with|through|next|back)\b)[a-z])) )
"""
"""9:55 am Sat."""
_AT_START = r"(?:(?<=^)|(?<=[;:.][ ]))(?P<day>Mon|Tues?|Weds?|Thu(?:rs?)?|Fri)(?=[ ][A-Za-z])"
"""The day of a plan: Mon at sea; Tue Cozumel."""
_STARTS = lazy(rf"(?:^|[;:.] )(?:{DAYS_SHORT}|{DAYS_LONG})\b")
_CERTAIN_STARTS = lazy(rf"(?:^|[;:.] )(?:Tues?|Thu(?:rs?)?|Fri|{DAYS_LONG})\b")
_CELL = rf"^(?P<day>{DAYS_SHORT})(?=,[ ][-−]?\d{{1,3}}°)"
"""The day of a row of a table: "Sat, 71°"."""
_CERTAIN_DAY = rf"""
    (?<![\w.])(?:Fri|fri|Thurs?|thurs|Tues?|tues|Weds)(?![\w'-]|\.\w|[ ][A-Z][a-z])(?:\.(?=[ ][a-z\d]))?
  | (?: (?<=\b[Oo]n[ ]) | (?<=\b[Bb]y[ ]) | (?<=\b[Tt]his[ ]) | (?<=\b[Nn]ext[ ]) | (?<=\blast[ ]) | (?<=\b[Ee]very[ ])
      | (?<=\buntil[ ]) | (?<=\btill[ ]) ) {DAYS_SHORT} (?![\w'-]|\.\w|[ ][A-Z])(?:\.(?=[ ][a-z\d]))?
  | (?<=\bfor[ ])(?:Mon|Wed|Sat)(?=[,;.!?]|\s*$|[ ](?:at|from|and|or)\b)
"""
"""A weekday alone. Mon, Wed, Sat and Sun are also other words."""
_NAMED_FRI = lazy(
    r"\b(?:[Aa]sk(?:ed)?|[Tt]ell|[Tt]old|[Dd]ear|[Hh]i|[Hh]ey|[Hh]ello|named|called|name is|my friend) Fri\b"
    r"|\bFri is my\b"
)
"""What shows that "Fri" is the name of a person."""
_LAST_DAY = r"(?<=[a-z][ ])(?P<day>Mon|Wed|Sat|Sun)(?=[.!?]?\s*$)"
"""The day at the end of a sentence: "rain Wed"."""
_WORD_BEFORE_DAY = lazy(r"(?:^|[ (])(?!the )[a-z][\w'-]* $")


def day_name(text: str | None) -> str:
    """Return the full name of a weekday, given its name or abbreviation; "" for neither."""
    if not text:
        return ""
    name = text.rstrip(".,")
    return _SHORT_NAMES.get(name.lower(), name)


def _day_before(match: re.Match[str]) -> str:
    text, after = match.string, match.string[match.end() :]
    if text[max(0, match.start() - 4) : match.start()].lower() == "the " or _COUNTED_AFTER.match(after):
        return match[0]
    if after.startswith(":") and match.start() and len(_DAY_COLON.findall(text)) < 2:
        return match[0]
    return day_name(match["day"])


def _days(match: re.Match[str]) -> str:
    """Return several weekdays, with words for the signs between them."""
    days = _DAY_WORD.findall(match[0])
    links = _DAY_WORD.split(match[0])[1:-1]
    words = [day_name(days[0])]
    for number, (link, day) in enumerate(zip(links, days[1:], strict=True), 1):
        sign = link.strip(" .")
        if sign in ("-", "–", "→"):
            link = " to "
        elif sign in ("/", "&"):
            link = " and " if number == len(links) else ", "
        words += [link.lstrip("."), day_name(day)]
    return "".join(words)


def _letter_range(match: re.Match[str]) -> str:
    """Return two days. At the end of a clause they need a time before them: "9a-5p M-F"."""
    if (
        match["last"] == "F"
        and not _TIME_AFTER.match(match.string, match.end())
        and not _TIME_BEFORE.search(match.string, 0, match.start())
    ):
        return match[0]
    return f"{_LETTER_DAYS[match['first']]} to {_LETTER_DAYS[match['last']]}"


def _letter_after(match: re.Match[str]) -> str:
    return _LETTER_DAYS[match["day"]] if _LETTER_WEEK.search(match.string) else match[0]


def _at_start(match: re.Match[str]) -> str:
    """Return a day if another part begins with a day, too. Mon and Wed are also other words."""
    starts = _CERTAIN_STARTS if match["day"] in ("Mon", "Wed") else _STARTS
    others = starts.search(match.string, 0, match.start()) or starts.search(match.string, match.end())
    return day_name(match["day"]) if others else match[0]


def _certain_day(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("Fri") and _NAMED_FRI.search(match.string) else day_name(match[0])


def _last_day(match: re.Match[str]) -> str:
    """Return the day after a word in lower case. "Couple Wed" in a headline and "the Sun" are no days."""
    is_day = _WORD_BEFORE_DAY.search(match.string, max(0, match.start() - 24), match.start())
    return day_name(match["day"]) if is_day else match[0]


_CLASS_DAYS = r"(?<!\w)(?:MTWThF|MTWTh|MWF|MW|TuTh|TTh|WF|MF)(?=[ ](?:at[ ])?\d{1,2}(?::\d\d)?[ ]?(?:[-–]|[ap]m?\b))"
"""MWF 9:05-9:55."""
_CLASS_DAY = lazy("|".join(sorted(_LETTER_DAYS, key=len, reverse=True)))

_LISTED_DAY = r"""
    (?<=[;,][ ]) (?P<day>mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)
    (?=[ ](?:by[ ]app|closed\b|only\b|\d{1,2}(?::\d\d)?[ ]?(?:[-–]|[ap]m?\b)))
"""
"""The day of a list: "9-5 M-F; sat by appt"."""


def _after_time(match: re.Match[str]) -> str:
    end = "." if match[0].endswith(".") and match["next"] else ""
    return f"{match['time']}{day_name(match['day'])}{end}"


RULES: tuple[Rule, ...] = (
    rule(_LISTED_DAY, lambda match: day_name(match["day"]), SHORT_DAYS),
    rule(_CLASS_DAYS, lambda match: ", ".join(_LETTER_DAYS[day] for day in _CLASS_DAY.findall(match[0])), "capitals"),
    rule(r"(?<![\w.])(?P<day>Tu|Th)\.(?=[ ]\d)", lambda match: _LETTER_DAYS[match["day"]], ("tu", "th")),
    rule(rf"(?<!\w)(?P<day>{DAYS_SHORT})\.'(?=[ ][a-z])", lambda match: f"{day_name(match['day'])}s'", SHORT_DAYS),
    rule(_DAYS, _days, SHORT_DAYS),
    rule(_LETTER_AFTER, _letter_after, "digit-"),
    rule(_LETTER_RANGE, _letter_range, ("M-", "M–", "T-", "Tu-", "W-", "Th-")),
    rule(_DAYS_SLASHED, lambda match: ", ".join(_LETTER_DAYS[each] for each in match[0].split("/")), "/"),
    rule(_DAY_BEFORE, _day_before, SHORT_DAYS),
    rule(_AFTER_TIME, _after_time, SHORT_DAYS),
    rule(_AT_START, _at_start, SHORT_DAYS),
    rule(_CELL, lambda match: day_name(match["day"]), SHORT_DAYS),
    rule(_CERTAIN_DAY, _certain_day, SHORT_DAYS),
    rule(_LAST_DAY, _last_day, ("mon", "wed", "sat", "sun")),
)
"""Run after dates, which can begin with a weekday."""

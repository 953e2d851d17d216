"""Clock times and durations as words: 9:30am, 14:05, 9am-5pm, 1h 30m, 2:15:30, 5 o'clock."""

from __future__ import annotations

import re

from server.text.english import military_times, numbers
from server.text.english.rules import Rule, rule
from server.text.english.time_zones import ZONES
from server.text.patterns import lazy

_HALF = r"(?:[ ]?(?P<half>[AaPp])\.?[ ]?[Mm](?:(?P<stop>\.)|(?![\w])))"
_CLOCK = rf"""
    (?<![\w.:,$£€\-])(?<!\d/) (?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?
    (?:{_HALF})? (?:[ ]?(?P<zulu>Z|h|hrs|hours)(?!\w))? (?![\w%]|:(?!\s|$)|[.,]\d)
"""
_NOON = r"""
    (?<!\w) (?P<first>(?i:noon|midnight)) [ ]?[-–][ ]? (?=\d)
  | (?<=[\dm.]) [ ]?[-–][ ]? (?P<second>noon|midnight) (?!\w)
"""
_HOUR = rf"(?<![\w.:,$£€\-])(?<!\d/)(?P<hour>1[0-2]|0?[1-9]){_HALF}"
_FROM_TO = r"""
    (?<![\w.:,$£€/\-]) (?P<start>(?:1[0-2]|0?[1-9])(?::[0-5]\d)?) (?P<first>[ ]?[AaPp]\.?[Mm]\.?)?
    [ ]?[-–—][ ]? (?P<end>(?:1[0-2]|0?[1-9])(?::[0-5]\d)?) (?P<last>[ ]?[AaPp]\.?[Mm]\b\.?)
"""
_CLOCK_RANGE = (
    r"(?<![\w.:,$£€/\-])(?P<start>\d{1,2}:\d{2})[ ]?[-–—][ ]?(?P<end>\d{1,2}:\d{2})(?![\w:]|[ ][AaPp]\.?[Mm])"
)
_TIME = r"(?:1[0-2]|0?[1-9])(?::[0-5]\d)?"
_BARE_RANGE = rf"""
    (?<![\w.:,$£€/\-]) (?P<start>{_TIME}) (?P<first>[ap]m?|(?<=:\d\d)[AP])? [ ]?[-–][ ]?
    (?P<end>{_TIME}) (?P<last>[ap]|(?<=:\d\d)[AP])(?!\w|\.\w)
"""
"""8a-10p, 10:05A–1:15P."""
_BARE_HALF = rf"""
    (?P<before> (?<![\w.:,$£€/\-])(?=(?:1[0-2]|0?[1-9]):) | (?<![\w.:,$£€/\-])(?=\d{{1,2}}[ap][ ](?:[ECMP]S?T)\b)
      | \b(?:at|after|by|till|until|from|[Dd]oors|[Ss]how|[Oo]pens?|[Cc]loses?|[Ll]ands?|[Pp]arty)[ ] | @[ ]? )
    (?P<hour>{_TIME})(?P<half>[ap]|(?<=:\d\d)[AP]) (?!\w|\.\w|[ ]each\b)
"""
"""6:30p, 7:45P, at 8a."""
_MIXED_RANGE = rf"""
    (?<![\w.:,$£€/\-]) (?P<start>{_TIME}) (?P<first>[ ]?[AaPp]\.?[Mm]\.?)? [ ]?[-–][ ]? (?P<end>{_TIME})
    (?![\w:%/] | [.,]\d | -\d | [ ]?[AaPp]\.?[Mm])
"""
"""9-5:30."""
_OCLOCK = r"(?<![\w.:,])(?P<hour>\d{1,2})[ ]?o['’ ]?[ ]?clock\b"
_DOTTED_TIME = r"(?:1[0-2]|0?[1-9])\.[0-5]\d"
_DOTTED_RANGE = rf"""
    (?<![\w.:,$£€/\-]) (?P<start>{_DOTTED_TIME}) (?P<first>[ ]?[ap]m)? [ ]?[-–][ ]?
    (?=(?:{_DOTTED_TIME}|1[0-2]|[1-9])[ ]?[ap]m)
"""
"""The first time of 5.30-6.45pm."""
_DOTTED_BEFORE = r"""
    (?P<before> \b[Tt]he[ ]
      | \b(?i:kick-?off|lunch|tea|dinner|doors|start\w*|beg[ai]ns?|opens?|closes?|arriv\w+|depart\w+|leaves?|left)
        [ ](?:\w+[ ]){0,3}at[ ] )
    (?<![\w.]) (?P<hour>[01]?\d|2[0-3])\.(?P<minute>[0-5]\d)
    (?![\w.%] | [ ](?:percent|million|billion|dollars|pounds|euros|miles|met(?:er|re)s|seconds|inch|release|version|per
      |each|against|higher|lower|for[ ]the|a[ ](?:month|day|year|week|share|piece|lit(?:er|re)|kilo)
      |m|km|cm|mm|kg|g|lb|ft|in|mi|l)\b )
"""
_DOTTED_FOR = r"(?<![\w.])(?P<hour>1[0-2]|[1-9])\.(?P<minute>[0-5]\d)(?=[ ]for[ ]\d{1,2}(?:[.:]\d\d)?[ ]?[ap]m)"
"""6.30 for 7pm."""
_DOTTED_LISTED = r"(?<=[a-z][ ])(?P<hour>1[0-2]|[1-9])\.(?P<minute>[0-5]\d)(?=[,;]|[ ][A-Z]|\.?$)"
"""A time in a list of times: "Matins 9am, Eucharist 10.45"."""
_PACES = {"km": "kilometer", "mi": "mile", "mile": "mile", "500m": "five hundred meters", "100m": "hundred meters"}
_PACE = rf"(?<=\d:[0-5]\d)[ ]?/[ ]?(?P<unit>{'|'.join(_PACES)})(?!\w)"
"""The distance of a pace: 5:30/km."""
_TIME_BEFORE = lazy(r"\d ?[ap]\.?m\.?[,;] [A-Z][\w ]{2,24}$")
_TIME_AFTER = lazy(r"[,;] [A-Z][\w ]{2,24} \d{1,2}(?:[.:]\d\d)? ?[ap]\.?m\b")
_DOTTED = rf"(?<![\w.:,$£€/\-])(?P<hour>1[0-2]|0?[1-9])\.(?P<minute>[0-5]\d){_HALF}"
_COUNTDOWN = (
    r"(?<![\w-])T[-−](?=\d{1,3}[ ](?:seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|and[ ]counting)\b)"
)
"""T-10 minutes."""
_NETWORKS = rf"(?<![\w.:,$£€/\-])(?P<east>{_TIME})/(?P<central>{_TIME})[Cc](?!\w)"
"""8/7c: the hour of a show in two time zones."""
_UNITS = {"d": "day", "h": "hour", "m": "minute", "s": "second"}
_DURATION = r"""
    (?<![\w.:,$]) (?:(?P<d>\d{1,3})[ ]?d(?:ays?)?[ ]?)? (?:(?P<h>\d{1,3})[ ]?h(?:(?:ou)?rs?)?[ ]?)?
    (?P<m>\d{1,2})[ ]?m(?:in(?:ute)?s?)? (?:[ ]?(?P<s>\d{1,2})[ ]?s(?:ec(?:ond)?s?)?)? (?!\w)
"""
_MINUTES = r"(?<![\w.:,$])(?P<ago>\d{1,2})m(?=[ ]ago\b)|(?<=\bETA)(?P<link>:?[ ])(?P<eta>\d{1,2})m(?!\w)"
_HOURS_OF_DAYS = r"(?<![\w.:,$])(?P<d>\d{1,3})[ ]?d[ ]?(?P<h>\d{1,2})[ ]?h(?:rs?)?(?!\w)"
_LONG = r"(?<![\w.:,$/\-])(?P<h>\d{1,3}):(?P<m>[0-5]\d):(?P<s>[0-5]\d)(?:\.(?P<fraction>\d+))?(?![\w:])"
_LAP = r"(?<![\w.:,$/\-])(?P<m>[0-5]?\d):(?P<s>[0-5]\d)\.(?P<fraction>\d{1,3})(?![\w:])"
_EVENT_BEFORE = lazy(
    r"\b(?:meet|see you|c u|doors|starts?|party|dinner|lunch|class|game|show|practice|rehearsal|kick-?off|pick ?up|"
    r"tonight|tomorrow|today|2nite|2moro)\b[^.!?@]{0,20}$",
    re.IGNORECASE,
)
_PRICE_BEFORE = lazy(r"\b(?:prices?|tickets?|pound|euro|dollar|stock|shares?|bid|version|rates?|odds)\b", re.IGNORECASE)
_RUN = r"(?<![\w.:,$/\-])(?P<m>2[5-9]|[3-5]\d):(?P<s>[0-5]\d)(?![\w:]|\.\d|\s?[-–]\d)"
"""Minutes and seconds that are no time of day: 42:15."""
_AFTER_AT = r"""
    (?<!\w)@[ ]?(?P<hour>1[0-2]|[1-9])(?P<minute>[0-5]\d)
    (?![\w\-]|[.,:]\d|[ ](?:each|m[lLg]|cc|k?g|lbs?|mph|km|rpm|bpm|cal)\b)
"""
"""A time without its colon: "meet @ 530"."""
_OF_DAY_BEFORE = lazy(r"\b(?:at|by|until|till|before|after|since|from|struck|clock|[a-z]+day,?|on|it is) $|@ ?$")
_OF_DAY_AFTER = lazy(rf" (?:{ZONES}|on|today|tonight|yesterday|tomorrow|this (?:morning|afternoon|evening)|sharp)\b")
"""Words beside a time of day with seconds."""
_SCORE_HINT = lazy(r"split|score|\bwon\b|\blost\b|beat|gear|\d:\d\d,? \d\d:\d\d|sets?\b")
_RATIO_HINT = lazy(r"ratio|odds|scale|aspect|mix(?:ed|ture)?|verse|[Dd]ilut|gear")
_DILUTED = lazy(
    r"^Mix $|\b[Dd]ilute[ds]? (?:[a-z]+,? )*"
    r"(?<!\b(?:at|by|to|or) )(?<!\b(?:for|til) )(?<!\b(?:from|till) )(?<!\b(?:until|about|after) )$"
)
"""Dilute the bleach with water, 1:10."""


def _half(match: re.Match[str]) -> str:
    """Return " a.m." or " p.m.", or "" if the time has neither."""
    half = match["half"]
    return f" {half.lower()}.m." if half else ""


def _clock(match: re.Match[str]) -> str:
    hour, minute, second = int(match["hour"]), int(match["minute"]), match["second"]
    around = max(0, match.start() - 16), min(len(match.string), match.end() + 10)
    before = max(0, match.start() - 40), match.start()
    diluted = hour == 1 and minute and _DILUTED.search(match.string, *before)
    if not match["half"] and (diluted or _RATIO_HINT.search(match.string, *around)):
        return match[0]
    if second is not None and not match["half"] and not match["zulu"] and not _is_of_day(match):
        return long_duration(hour, minute, int(second))
    after = match["half"] or (match["zulu"] and match["zulu"] != "Z")
    words = clock(hour, minute, bare=bool(after))
    if second and int(second):
        words += f" and {_count(int(second), 'second')}"
    if match["zulu"]:
        words += " U T C" if match["zulu"] == "Z" else " hours" if minute == 0 and hour > 12 else ""
    return words + _half(match)


def _is_of_day(match: re.Match[str]) -> bool:
    """Return whether hours, minutes and seconds are a time of day: "at 14:05:09", "14:05:09 UTC"."""
    if len(match["hour"]) < 2 or match["hour"] == "00":
        return False
    before = _OF_DAY_BEFORE.search(match.string, max(0, match.start() - 16), match.start())
    return before is not None or _OF_DAY_AFTER.match(match.string, match.end()) is not None


def clock(hour: int, minute: int, *, bare: bool = False) -> str:
    """Return a time of day in words. bare: without "o'clock", because "a.m." follows."""
    if minute:
        return f"{numbers.cardinal(hour)} {numbers.pair(minute)}"
    if bare and hour <= 12:
        return numbers.cardinal(hour)
    if hour == 0:
        return "midnight"
    return f"{numbers.cardinal(hour)} " + ("o'clock" if hour <= 12 else "hundred")


def long_duration(hours: int, minutes: int, seconds: int) -> str:
    """Return a duration in words, without the units of which it has none."""
    parts = [_count(hours, "hour"), _count(minutes, "minute"), _count(seconds, "second")]
    parts = [part for part in parts if part]
    return " ".join([*parts[:-1], "and", parts[-1]]) if len(parts) > 1 else "".join(parts) or "zero seconds"


def _count(number: int, unit: str) -> str:
    return f"{numbers.cardinal(number)} {unit}{'s' if number != 1 else ''}" if number else ""


def _noon(match: re.Match[str]) -> str:
    return f"{match['first']} to " if match["first"] else f" to {match['second']}"


def _hour_range(match: re.Match[str]) -> str:
    first = _suffix(match["first"])
    return f"{_hours(match['start'])}{first} to {_hours(match['end'])}{_suffix(match['last'])}"


def _suffix(half: str | None) -> str:
    return f" {half.strip()[0].lower()}.m." if half else ""


def _hours(text: str) -> str:
    hour, _, minute = text.partition(":")
    if minute:
        return clock(int(hour), int(minute), bare=True)
    return numbers.cardinal(int(hour))


def _clock_range(match: re.Match[str]) -> str:
    (start, start_minute), (end, end_minute) = (match[name].split(":") for name in ("start", "end"))
    if max(int(start), int(end)) > 24 or max(int(start_minute), int(end_minute)) > 59:
        return match[0]
    if max(int(start), int(end)) > 12:
        return f"{_military(start, int(start_minute))} to {_military(end, int(end_minute))}"
    return f"{clock(int(start), int(start_minute))} to {clock(int(end), int(end_minute))}"


def _military(hour: str, minute: int) -> str:
    """Return a time of a range that counts 24 hours: "02:00" is "oh two hundred"."""
    if minute or not hour.startswith("0") or int(hour) == 0:
        return clock(int(hour), minute)
    return f"oh {numbers.cardinal(int(hour))} hundred"


def _duration(match: re.Match[str]) -> str:
    found = match.groupdict()
    if found.get("h") is None and found.get("s") is None and found.get("d") is None:
        return match[0]
    parts = [(int(found[key]), unit) for key, unit in _UNITS.items() if found.get(key)]
    return " ".join(f"{numbers.cardinal(number)} {unit}{'s' if number != 1 else ''}" for number, unit in parts)


def _minutes(match: re.Match[str]) -> str:
    return (match["link"] or "") + numbers.plural(match["ago"] or match["eta"], "minute", "minutes")


def _long_duration(match: re.Match[str]) -> str:
    words = long_duration(int(match["h"]), int(match["m"]), int(match["s"]))
    if match["fraction"] and words.endswith(" seconds"):
        words = f"{words.removesuffix(' seconds')} point {numbers.digits(match['fraction'])} seconds"
    return words


def _logged(match: re.Match[str]) -> str:
    second = int(match["second"])
    return f"{clock(int(match['hour']), int(match['minute']))}{f' {numbers.pair(second)}' if second else ''},"


def _lap(match: re.Match[str]) -> str:
    seconds = numbers.pair(int(match["s"]))
    return f"{numbers.cardinal(int(match['m']))} {seconds} point {numbers.digits(match['fraction'])}"


def _run(match: re.Match[str]) -> str:
    minutes, seconds = int(match["m"]), int(match["s"])
    around = match.string[max(0, match.start() - 24) : match.end() + 12]
    timed = match.string[max(0, match.start() - 3) : match.start()] == "in "
    if not timed and (minutes + seconds == 100 or _RATIO_HINT.search(around) or _SCORE_HINT.search(around)):
        return match[0]
    return f"{numbers.cardinal(minutes)} {numbers.pair(seconds)}" if seconds else f"{numbers.cardinal(minutes)} minutes"


def _after_at(match: re.Match[str]) -> str:
    if not _EVENT_BEFORE.search(match.string, max(0, match.start() - 30), match.start()):
        return match[0]
    return f"at {clock(int(match['hour']), int(match['minute']))}"


def _dotted_before(match: re.Match[str]) -> str:
    after = match.string[match.end() : match.end() + 10]
    if _PRICE_BEFORE.search(match.string, max(0, match.start() - 30), match.start() + 12):
        return match[0]
    if match["before"].strip().lower() == "the" and not re.match(
        r" (?:to|from|service|train|bus|ferry|departure)\b", after
    ):
        return match[0]
    return match["before"] + clock(int(match["hour"]), int(match["minute"]))


def _dotted_listed(match: re.Match[str]) -> str:
    before, after = match.string[max(0, match.start() - 30) : match.start()], match.string[match.end() :][:30]
    if int(match["minute"]) % 5 or not (_TIME_BEFORE.search(before) or _TIME_AFTER.match(after)):
        return match[0]
    return clock(int(match["hour"]), int(match["minute"]))


def _networks(match: re.Match[str]) -> str:
    """Return two hours of which the second is one less. Others are a fraction of a cup: 3/4c."""
    east, central = (int(match[name].partition(":")[0]) for name in ("east", "central"))
    return f"{_hours(match['east'])}, {_hours(match['central'])} C" if east - central == 1 else match[0]


def _mixed_range(match: re.Match[str]) -> str:
    """Return a range of times of which at least one has minutes."""
    if ":" not in match[0]:
        return match[0]
    return f"{_hours(match['start'])}{_suffix(match['first'])} to {_hours(match['end'])}"


def _hours_and_minutes(match: re.Match[str]) -> str:
    hour, minute = int(match["hour"]), int(match["minute"])
    if match["at"]:
        return match["at"] + clock(hour, minute)
    return f"{_count(hour, 'hour') or 'zero hours'} {numbers.pair(minute)}"


def _bare_half(match: re.Match[str]) -> str:
    return f"{match['before'] or ''}{_hours(match['hour'])} {match['half'].lower()}.m."


_HOURS_AND_MINUTES = r"""
    (?P<at>\b(?:at|by|until|till|from|to)[ ])? (?<![\w.:,$]) (?P<hour>\d{1,2})h(?P<minute>[0-5]\d) (?!\w)
"""
"""2h30, at 15h30."""

RULES: tuple[Rule, ...] = (
    rule(
        r"(?<=[a-z][ ]):(?P<seconds>15|30|60)(?=[ ](?:spots?|ads?|commercials?|cut|version)\b)",
        lambda match: f"{numbers.cardinal(int(match['seconds']))} second",
        (r" :\d\d",),
    ),
    rule(_HOURS_AND_MINUTES, _hours_and_minutes, "digit h"),
    rule(_BARE_RANGE, _hour_range, "digit a"),
    rule(_BARE_HALF, _bare_half, "digit a"),
    rule(_NETWORKS, _networks, "unit/digit"),
    rule(_COUNTDOWN, "T minus ", ("T-", "T−")),
    *military_times.RULES,
    rule(_PACE, lambda match: f" per {_PACES[match['unit']]}", "digit:"),
    rule(_DOTTED_FOR, lambda match: clock(int(match["hour"]), int(match["minute"])), r" for \d"),
    rule(_DOTTED_LISTED, _dotted_listed, r"\d.\d\d"),
    rule(_CLOCK_RANGE, _clock_range, "digit:"),
    rule(_MIXED_RANGE, _mixed_range, "digit:"),
    rule(_NOON, _noon, ("noon", "midnight")),
    rule(_FROM_TO, _hour_range, "digit am"),
    rule(
        r"\[(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)(?:[.,]\d{1,6})?\]",
        _logged,
        "digit:",
    ),
    rule(_LAP, _lap, "digit:"),
    rule(_CLOCK, _clock, "digit:"),
    rule(_LONG, _long_duration, "digit:"),
    rule(_RUN, _run, "digit:"),
    rule(_AFTER_AT, _after_at, "@"),
    rule(
        _DOTTED_RANGE,
        lambda match: f"{_hours(match['start'].replace('.', ':'))}{_suffix(match['first'])} to ",
        "digit.",
    ),
    rule(_DOTTED_BEFORE, _dotted_before, (r" \d.\d\d", r" \d\d.\d\d")),
    rule(
        _DOTTED,
        lambda match: clock(int(match["hour"]), int(match["minute"]), bare=True) + _half(match),
        [rf".\d\d{space}{half}" for space in ("", " ") for half in "AaPp"],
    ),
    rule(_HOUR, lambda match: numbers.cardinal(int(match["hour"])) + _half(match), "digit am"),
    rule(
        _OCLOCK, lambda match: f"{numbers.cardinal(int(match['hour']))} o'clock", ("clock", "oclock"), ignore_case=True
    ),
    rule(_DURATION, _duration, "digit h"),
    rule(_HOURS_OF_DAYS, _duration, "digit h"),
    rule(
        r"(?<![\w.:,$])(?P<number>\d{1,2})m(?=[ ](?:timer|break|nap|call|delay|warm-?up)\b)",
        lambda match: f"{numbers.cardinal(int(match['number']))} minute",
        ("timer", "break", "nap", "call", "delay", "warm"),
    ),
    rule(_MINUTES, _minutes, ("ago", "eta")),
)

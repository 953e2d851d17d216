"""Feet, inches and sizes as words: 5'7", a 27" monitor, 8' x 10', 1920x1080, 2x4s, 48L x 40W."""

from __future__ import annotations

import re

from server.text.english import attributive, numbers
from server.text.english.attributive import NOT_NOUNS, SIZE_WORDS
from server.text.english.rules import Rule, beside, rule
from server.text.english.units import FRACTION, NUMBER, in_words, is_one
from server.text.patterns import lazy

_FEET = r"""
    (?<![\w.]) (?P<feet>\d+) [ ]?(?:'|′|ft\.?|feet)[ ]?
    (?P<inches>\d+(?:\.\d+)?) [ ]?(?:\"|''|″|in(?:ches|\.)?(?!\w)|(?![\w:]))
    (?P<by>[ ]?[x×][ ]?(?=\d))?
"""
_INCHES = rf"""
    (?P<article>\b(?:[Aa]n?|[Tt]he|[Mm]y|[Hh]er|[Hh]is|[Oo]ur|[Tt]heir|[Tt]his|[Tt]hat|[Yy]our)[ ])?
    (?<![\w."])(?:(?P<from>\d{{1,3}})[-–](?!\d/))?(?P<number>{NUMBER}|{FRACTION})(?:"|″)(?=[ ]?[A-Za-z.,;)×]|[ ][\d(]|$)
"""
_QUOTE = lazy(rf"(?<!\d/\d)\"(?!(?<=\d\")[ ](?:(?:{SIZE_WORDS})[ ,.;]|[x×][ ]\d))")
"""Not the inches of 36" wide."""
_SIZED_THING = lazy(
    r"[ ](?:[\w-]+[ ]){0,6}(?:T[ ]?Vs?|monitors?|displays?|mattress(?:es)?|laptops?|screens?|wheels?|rims?|tablets?)\b"
)
_FOOT_SIZES = rf"(?<![\w.'])(?P<sides>{NUMBER}'(?:[ ]?[x×][ ]?{NUMBER}'){{1,2}})(?!\w)"
_FOOT_ALONE = r"""
    (?<![\w.'])(?P<number>\d+)'(?P<more>\+)?
    (?=[ ](?:long|wide|tall|high|deep|apart|above|below|from[ ]the[ ][a-z]+)\b)
"""
_MINUTES = r"""
    (?<![\w.']) (?P<number>\d{1,3})'
    (?= [ ](?:late|early|delay|behind|ahead|remaining|left|(?P<walk>walk|drive|ride|break|rest))\b )
"""
"""5' late, 10' walk."""
_OPEN_QUOTE = lazy(r"(?:^|[\s(])'(?=\w)")
_FOOT_OF = r"(?<![\w.'-])(?P<number>\d+)'(?=[ ][a-z])"
_FOOT_IN_BRACKETS = r"(?<=\()(?P<number>\d+)'(?=\))|^(?P<alone>\d{1,2})'(?=[.!?]?\s*$)"
_FOOT_THOUSANDS = r"(?<![\w.'])(?P<number>\d{1,3}(?:,\d{3})+)'(?!\w)"
"""35,000'."""
_BY = r"(?P<side>\d[ ]?(?:ft|in|cm|mm|m|yd)\b\.?)[ ]?[x×][ ]?(?=\d)"
"""10 ft. x 12 ft."""
_SIDE_BY = (
    r"(?P<side>\d(?:[\"'″′]|[ ]?(?:ft|in|cm|mm|m|inches|feet|foot)\b\.?)[ ](?:wide|long|tall|high|deep|thick))"
    r"[ ][x×][ ](?=\d)"
)
"""36" wide x 12" deep."""
_FOOT_END = (
    r"(?P<verb>(?:\bis|'s|\bare|'m|'re)[ ](?:(?:only|barely|just|about|almost|over|under|maybe)[ ])?)"
    r"(?P<number>[3-7])'(?=[.!?]?\s*$)"
)
"""She's 5'."""
_CRATE = r"(?<![\w.])(?P<long>\d+)[ ]?L[ ]?[x×][ ]?(?P<wide>\d+)[ ]?W(?:[ ]?[x×][ ]?(?P<high>\d+)[ ]?H)?(?!\w)"
_LUMBER = r"(?<![\w.])(?P<width>\d{1,2})x(?P<height>\d{1,2})s(?!\w)"
"""2x4s."""
_FOOT = r"(?<![\w.'])(?P<number>\d+)[′](?!\w)"
_MATCH_MINUTE = (
    r"(?<![\w.'])(?P<minute>\d{1,3})(?:\+(?P<added>\d{1,2}))?['′](?![\w\"'′]|[ ](?:tall|long|wide|high|deep))"
)
_SCORED = r"(?i:scor\w+|equali[sz]\w+|netted|booked|sent off)"
_SCORED_BEFORE = lazy(
    rf"\b[A-Z][\w'’-]{{1,30}} \((?:\d{{1,3}}(?:\+\d{{1,2}})?['′], )*$"
    r"|\((?!Height|Width|Length|Depth)[A-Z][\w.'’ -]{1,30} $"
    rf"|\b{_SCORED} (?:(?:again|late|early) )?(?:in|at|on) (?:the )?$"
)
_GOALS = r"[A-Z][\w'’-]{1,20} (?:\d{1,3}['′],? ?){1,9}"
_SCORERS = lazy(rf"(?:^|[;:,] ){_GOALS}(?:\([a-z.]{{2,5}}\))?(?:[,;] {_GOALS}|$)")
"""Messi 23', 67'; Saka 80'."""
_SCORED_AFTER = lazy(rf",? (?:(?:he|she|they|it|[A-Z]\w+) )?{_SCORED}\b")
"""What shows that 23' is a minute of football: Messi (23', 108'), (Saka 23'), scored at 23', At 12' he scored."""
_SECONDS_FROM = 12
"""From this number on, 1'14" is a time: minutes and seconds."""
_SIZE_AFTER = lazy(r" (?:tall|wide|long|high|deep|room|ceilings?|fence|wall)\b")
_MEASURE_AFTER = lazy(r" (?:wide|deep|thick|across)(?=[.,;:!?)]|\s*$| (?:and|by|at|in|x)\b)")
_ARTICLE_BEFORE = lazy(r"\b(?:[Aa]n?|[Tt]he|[Hh]er|[Hh]is|[Mm]y|[Oo]ur)[ ]$")
_ROOM_AFTER = lazy(r" (?:bed)?(?:room|rug|deck|area|space|garage|shed|patio|tent|pool|kitchen|office|booth|canopy)s?\b")
_NEAR = 40
"""Characters before a minute in which it is looked for."""
_SIDE = rf"(?:\d{{1,3}}[ -]\d/\d{{1,2}}|{NUMBER})"
_SIZES = rf"""
    (?<![\w.]) (?P<width>{_SIDE}) [ ]?[x×][ ]? (?P<height>{_SIDE}) (?:[ ]?[x×][ ]?(?P<depth>{NUMBER}))?
    (?!\w|\.\d|[\^⁰¹²³⁴-⁹⁻])(?![ ]?=)
"""
_SIZES_IN_WORDS = rf"""
    (?<![\w.]) (?P<width>{NUMBER}) [ ]?×[ ]? (?P<height>{NUMBER})
    (?=[ -](?:f(?:oo|ee)t|inch(?:es)?|(?:centi|milli|[cm])?m(?:et(?:er|re)s?)?|yards?|miles?|pixels?|grid|matrix|table|
    board|photos?|prints?)\b)
"""
_INCH_SIZES = rf"""
    (?P<article>\b[Aa]n?[ ])?(?<![\w."])(?P<width>{_SIDE})(?:"|″)? [ ]?[x×][ ]?
    (?P<height>{_SIDE})(?:"|″)(?=[\s.,;!?)]|$)
"""


def _feet(match: re.Match[str]) -> str:
    by = " by " if match["by"] else ""
    sized = by or _SIZE_AFTER.match(match.string, match.end())
    if "'" in match[0] and match[0].endswith('"') and float(match["inches"]) >= _SECONDS_FROM and not sized:
        minutes = numbers.plural(match["feet"], "minute", "minutes")
        return f"{minutes} {numbers.plural(match['inches'], 'second', 'seconds')}"
    if _MEASURE_AFTER.match(match.string, match.end()) and not _ARTICLE_BEFORE.search(match.string, 0, match.start()):
        feet, inches = (numbers.plural(match[name], one, name) for name, one in (("feet", "foot"), ("inches", "inch")))
        return f"{feet} {inches}"
    return f"{numbers.number(match['feet'])} foot {numbers.number(match['inches'])}{by}"


def _inches(match: re.Match[str]) -> str:
    if "/" not in match["number"] and len(_QUOTE.findall(match.string, 0, match.start())) % 2:
        return match[0]
    article = match["article"] or ""
    describes = (
        attributive.measure(match.string, *match.span())
        or _SIZED_THING.match(match.string, match.end())
        or (article and re.match(rf"[ ](?!(?:{NOT_NOUNS}|{SIZE_WORDS})\b)[A-Za-z]", match.string[match.end() :][:10]))
    )
    start = f"{numbers.number(match['from'])} to " if match["from"] else ""
    return f"{article}{start}{in_words(match['number'])} {'inch' if describes or is_one(match['number']) else 'inches'}"


def _match_minute(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    several = match.string.count("'") > 1 and _SCORERS.search(match.string)
    if not (
        several or match["added"] or _SCORED_BEFORE.search(before) or _SCORED_AFTER.match(match.string, match.end())
    ):
        return match[0]
    added = f" plus {numbers.cardinal(int(match['added']))}" if match["added"] else ""
    noun = "" if re.match(r"[ ]minutes?\b", match.string[match.end() : match.end() + 9]) else " minutes"
    return f"{numbers.cardinal(int(match['minute']))}{added}{noun}"


def _minutes(match: re.Match[str]) -> str:
    words = numbers.plural(match["number"], "minute", "minutes")
    return words.removesuffix("s") if match["walk"] else words


def _foot_of(match: re.Match[str]) -> str:
    """Return the height of a thing, "5' fence". Other numbers before an apostrophe are unchanged."""
    described = attributive.measure(match.string, *match.span()) and not _OPEN_QUOTE.search(
        match.string, 0, match.start()
    )
    return f"{numbers.number(match['number'])} foot" if described else match[0]


def _foot_sizes(match: re.Match[str]) -> str:
    noun = "foot" if _ROOM_AFTER.match(match.string, match.end()) else "feet"
    return f"{' by '.join(map(numbers.number, re.findall(NUMBER, match['sides'])))} {noun}"


def _crate(match: re.Match[str]) -> str:
    high = f" by {numbers.number(match['high'])} high" if match["high"] else ""
    return f"{numbers.number(match['long'])} long by {numbers.number(match['wide'])} wide{high}"


def _lumber(match: re.Match[str]) -> str:
    height = numbers.plural_number(numbers.cardinal(int(match["height"])))
    return f"{numbers.cardinal(int(match['width']))} by {height}"


def _inch_sizes(match: re.Match[str]) -> str:
    article = match["article"] or ""
    describes = article and re.match(r"[ ][a-z]", match.string[match.end() : match.end() + 2])
    sides = f"{in_words(match['width'])} by {in_words(match['height'])}"
    return f"{article}{sides} {'inch' if describes else 'inches'}"


def _sizes(match: re.Match[str]) -> str:
    if " × " in match[0] and not match["depth"]:
        return match[0]
    sides = [side for side in (match["width"], match["height"], match["depth"]) if side]
    return " by ".join(map(_side, sides))


def _side(text: str) -> str:
    if "/" in text:
        return in_words(text)
    return numbers.grouped(text) if len(text) in (3, 4) and text.isdecimal() else numbers.number(text)


EARLY: tuple[Rule, ...] = (
    rule(r"(?<=\d)\"[ ]?[-–][ ]?(?=\d{1,3}\")", " to ", "digit mark"),
    rule(r"(?<!\"\d)(?<!\"\d\d)(?<=\d)\"\+(?!\w)", " inches plus", "digit mark"),
    rule(_MATCH_MINUTE, _match_minute, "digit mark"),
    rule(r"(?<=minutes[ ]\()pen\.?(?=\))", "penalty", ("pen",)),
    rule(_FOOT_THOUSANDS, lambda match: f"{numbers.number(match['number'])} feet", "digit mark"),
    rule(_BY, r"\g<side> by ", (" x ", "×")),
    rule(_SIDE_BY, r"\g<side> by ", (" x ", "×")),
    rule(_CRATE, _crate, beside("", "L")),
    rule(_LUMBER, _lumber, "digit x"),
    rule(_FOOT_SIZES, _foot_sizes, "digit mark"),
    rule(_FOOT_END, lambda match: match["verb"] + numbers.plural(match["number"], "foot", "feet"), "digit mark"),
    rule(_MINUTES, _minutes, "digit mark"),
    rule(_FOOT_OF, _foot_of, "digit mark"),
    rule(
        _FOOT_ALONE,
        lambda match: numbers.plural(match["number"], "foot", "feet") + (" plus" if match["more"] else ""),
        "digit mark",
    ),
    rule(
        _FOOT_IN_BRACKETS,
        lambda match: numbers.plural(match["number"] or match["alone"], "foot", "feet"),
        "digit mark",
    ),
    rule(_FEET, _feet, ("digit mark", "ft", "feet")),
)
"""Run before other units."""

RULES: tuple[Rule, ...] = (
    rule(_INCH_SIZES, _inch_sizes, ("digit x", '" x', '"x', "×")),
    rule(_SIZES, _sizes, "digit x"),
    rule(_SIZES_IN_WORDS, r"\g<width> by \g<height>", "×"),
    rule(_INCHES, _inches, "digit mark"),
    rule(
        r"(?P<article>\b(?:[Aa]n?|[Tt]he|[Ii]ts|[Tt]heir|[Hh]is|[Hh]er|[Oo]ur|[Mm]y)[ ])(?P<number>\d+)'(?=[ ][a-z])",
        lambda match: f"{match['article']}{numbers.number(match['number'])} foot",
        "digit mark",
    ),
    rule(_FOOT, lambda match: numbers.plural(match["number"], "foot", "feet"), "′"),
)
"""Run after other units, some of which have an inch or an x."""

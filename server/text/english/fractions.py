"""Fractions as words: ½, 3/4, 1 1/2, 8/10, 50/50, 24/7."""

from __future__ import annotations

import re
import unicodedata

from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

VULGAR = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_FIXED = {"24/7": "twenty-four seven", "50/50": "fifty-fifty", "7/11": "seven eleven", "20/20": "twenty-twenty"}
_DENOMINATORS = frozenset((2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 24, 25, 32, 50, 64, 100, 128, 1000))
_NAMES = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_SCORE_BEFORE = lazy(
    r"(?:scor|rat|grad|mark|got|get|give|gave|earn|receiv|vot|pain|solid|easy|\brank|out\b|a |an )[\w': ]{0,16}$", re.I
)
_SCORE_AFTER = lazy(
    r"\s?(?:stars?|points?|marks?|rating|pain|correct|questions?|passed|would|on (?:the|my))\b|\s?[.!,]?$", re.I
)
_END = lazy(
    r"\s*[.!?)]*\s*|\s(?:would|wld|def|definitely|will|imo|tbh|for me|experience|recommend|score|from me)\b.*", re.S
)
"""What follows a rating out of ten."""
_SHARE = lazy(
    r"\b(?:equals?|fractions?|simplif\w+|probability|chance|inch(?:es)?|miles?|cups?|plus|minus|times|sum|ratio"
    r"|add(?:s|ed)?|subtract\w*|convert\w*|decimals?|percent|birthday|due|deadline|wedding|exam|appointment|part(?:y|ies)|meet(?:ing)?|flight|slope|answer|value|solution|result|reduces?)\b|[=+*×÷]",
    re.I,
)
"""What shows that n/10 is a fraction."""
_SCORED_BEFORE = lazy(r"(?:pain|scor\w*|rat\w+|mood|anxiety|review)\b.{0,24}\d/10\b.{0,40}$", re.I)
_OF = lazy(r"\s(?:of|full|inch|cup|mile|tsp|tbsp|teaspoon|tablespoon|pound|hour|done|complete|majority|way|off|the)\b")
_POINTS_BEFORE = lazy(r"\b(?:HP|MP|XP|SP|health|mana|stamina|armor)(?: is| at| to)?:? $")
_ODDS_BEFORE = lazy(
    r"\b(?:(?:odds|priced|went off)(?: (?:of|at|is|are|were|was))?"
    r"|(?:backed|favou?rite|outsider|returned|shortened|drifted) (?:at|to|out to)) $"
)
_ODDS_AFTER = lazy(r" (?:fav(?:ou?rite)?|shot|outsider|odds)\b")
_BET_BEFORE = lazy(r"\b(?:bet|bets|betting|wager\w*|staked?|punt|odds|bookies?|bookmakers?)\b.{0,60}\bat $", re.I)
_NUMBERED_BEFORE = lazy(
    r"\b(?:Win|Windows|iOS|Android|macOS|Python|Java|PHP|Ubuntu|Node|[Rr]outes?|[Gg]rades?|[Cc]hapters|[Pp]ages|[Qq]uestions"
    r"|[Rr]ooms|[Uu]nits|Room|Unit|Flat|Suite|[Ss]teps) $"
)
"""Names before two numbers that are no fraction: Windows 10/11, Flat 3/14."""
_CRICKET_BEFORE = lazy(
    r"\b(?:were|are|was|reached|reaching|(?:closed|declared|collapsed|slumped) (?:on|at|to)"
    r"|England|India|Australia|Pakistan|New Zealand|South Africa|Sri Lanka|West Indies|Bangladesh|Ireland) $"
)
_OVERS_AFTER = lazy(r" \([\w.-]{1,12} ov")
_COUNTED_BEFORE = lazy(
    r"(?<!this )(?<!that )(?<!each )\b(?:(?P<certain>retry|attempt|step|page|slide|episode|epoch|iteration|fold)"
    r"|part|question|chapter|lap|dis[ck]|chunk|batch):? [#(]?$",
    re.I,
)
_HEADED_AFTER = lazy(r" (?:Why|How|What|When|The|This|Here|So|It|Let|Today|My|We)(?:'s)? [a-z]")
"""The first words of a post in a thread: 1/7 Why it matters."""
_FEWEST_PARTS = 5
_CHALLENGES = (30, 31, 50, 60, 75, 90, 100, 365)
"""Lengths of a plan in days: Day 12/100."""
_READY_AFTER = lazy(r" (?:ready|checks?|tests?|pods?|replicas?|passed|done|complete[d]?|healthy|up|running)\b")
_RHYTHMS = frozenset("2/2 2/4 3/4 4/4 5/4 6/4 7/4 3/8 5/8 6/8 7/8 9/8 12/8".split())
_RHYTHM_AFTER = lazy(r" (?:time|met(?:er|re)|signature|rhythm|groove)\b(?! of\b)")
_TEMPO = lazy(r"\b(?:BPM|bpm|beats per minute)\b")
_TEMPO_AFTER = lazy(r"[,;:.)]|$| (?:at|and|with|\()")
_RHYTHM_BEFORE = lazy(r"^$|\b(?:[Ii]n|[Aa]|[Aa]n|[Tt]he|[Ff]rom|[Tt]o) $")
_LAW_BEFORE = lazy(r"\b(?:Regulation|Directive|Decision|Case|Rule)(?: \((?:EU|EC|EEC)\))?(?: No\.?)? $")

_VULGAR = rf"(?<![\w.,])(?<!\d/)(?:(?P<whole>\d+)[ ]?)?(?P<fraction>[{VULGAR}])(?![\w/])|[{VULGAR}]"
_MINUS = rf"(?:(?<=^)|(?<=[ (=]))(?<!\d[ ])[-−](?=\d{{0,3}}[{VULGAR}])"
"""The minus of -½."""
_SLASH = r"""
    (?<![\w.,/$€£:\-]) (?:(?P<whole>\d{1,4})(?:[ ]|-(?=\d+/)|[ ]and[ ]))? (?P<top>\d{1,4})/(?P<bottom>\d{1,4})
    (?P<suffix>(?:th|rd|nd|ths|rds)(?!\w))? (?![\w/]|[.,]\d|:\d)
"""
_NEGATIVE = r"""
    [-−] (?<![\w.,)\]$€£%].)(?<!\d[ ].)
    (?P<top>\d{1,3})/(?P<bottom>\d{1,3}) (?![\w/]|[.,]\d|:\d)
"""
"""The slope is -2/3."""
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "01234567890123456789")
_BUILT = r"(?P<top>[⁰¹²³⁴-⁹]{1,4})⁄(?P<bottom>[₀-₉]{1,4})"


def fraction(top: int, bottom: int) -> str:
    """Return a fraction in words: "three quarters"."""
    if bottom in _NAMES:
        one, many = _NAMES[bottom]
    else:
        one = numbers.ordinal(bottom)
        many = f"{one}s"
    return f"{numbers.cardinal(top)} {one if top == 1 else many}"


def mixed(text: str) -> str:
    """Return a fraction or a mixed number as typed, "1/2", "2½", "1 1/2", in words."""
    if match := re.fullmatch(rf"(\d*)\s?([{VULGAR}])", text):
        return _with_whole(match[1], *_vulgar(match[2]))
    match = re.fullmatch(r"(?:(\d+)\s)?(\d+)/(\d+)", text)
    if match is None or match[3] == "0":
        return text
    return _with_whole(match[1], int(match[2]), int(match[3]))


def _with_whole(whole: str | None, top: int, bottom: int) -> str:
    if not whole:
        return fraction(top, bottom)
    part = "a half" if (top, bottom) == (1, 2) else fraction(top, bottom)
    return f"{numbers.number(whole)} and {part}"


def _vulgar(character: str) -> tuple[int, int]:
    top, _, bottom = unicodedata.normalize("NFKC", character).partition("⁄")
    return int(top), int(bottom)


def _vulgar_match(match: re.Match[str]) -> str:
    if match["fraction"] is None:
        return f" {fraction(*_vulgar(match[0]))} "
    return _with_whole(match["whole"], *_vulgar(match["fraction"]))


def _slash(match: re.Match[str]) -> str:
    text, whole = match[0], match["whole"]
    top, bottom = int(match["top"]), int(match["bottom"])
    if text in _FIXED:
        return _FIXED[text]
    if whole and (top >= bottom or bottom not in _DENOMINATORS):
        return f"{whole} {_pair(match, top, bottom)}"
    if whole:
        return _with_whole(whole, top, bottom)
    return _pair(match, top, bottom)


def _pair(match: re.Match[str], top: int, bottom: int) -> str:
    before, after = match.string[max(0, match.start() - 28) : match.start()], match.string[match.end() :][:16]
    scored = top == bottom or _is_score(before, after) or _SCORED_BEFORE.search(match.string, 0, match.start())
    if bottom in (5, 10, 20, 100) and top <= bottom and scored:
        return f"{numbers.cardinal(top)} out of {numbers.cardinal(bottom)}"
    if bottom == 10 and top <= 10 and _END.fullmatch(after) and before.strip() and not _SHARE.search(match.string):
        return f"{numbers.cardinal(top)} out of ten"
    if not before.strip() and bottom >= _FEWEST_PARTS and top <= bottom and _HEADED_AFTER.match(after):
        return f"{numbers.cardinal(top)} of {numbers.cardinal(bottom)}"
    if before.endswith("Day ") and bottom in _CHALLENGES:
        return f"{numbers.cardinal(top)} of {numbers.cardinal(bottom)}"
    counted = _COUNTED_BEFORE.search(before)
    if counted and top <= bottom and (counted["certain"] or not _OF.match(after)):
        return f"{numbers.cardinal(top)} of {numbers.cardinal(bottom)}"
    musical = _RHYTHM_AFTER.match(after) or (_TEMPO.search(match.string) and _TEMPO_AFTER.match(after))
    if f"{top}/{bottom}" in _RHYTHMS and musical and _RHYTHM_BEFORE.search(before):
        return f"{numbers.cardinal(top)} {numbers.cardinal(bottom)}"
    if top == bottom and _READY_AFTER.match(after):
        return f"{numbers.cardinal(top)} of {numbers.cardinal(bottom)}"
    if _POINTS_BEFORE.search(before):
        return f"{numbers.cardinal(top)} out of {numbers.cardinal(bottom)}"
    if bottom <= 10 and _ODDS_BEFORE.search(before) and not _OF.match(after):
        return f"{numbers.cardinal(top)} to {numbers.cardinal(bottom)}"
    if bottom <= 10 and _ODDS_AFTER.match(after):
        return f"{numbers.cardinal(top)} to {numbers.cardinal(bottom)}"
    if bottom <= 10 and not _OF.match(after) and _BET_BEFORE.search(match.string, 0, match.start()):
        return f"{numbers.cardinal(top)} to {numbers.cardinal(bottom)}"
    if _NUMBERED_BEFORE.search(before) and not _OF.match(after):
        return f"{numbers.cardinal(top)} slash {numbers.cardinal(bottom)}"
    if bottom < 10 and top > 20 and (_CRICKET_BEFORE.search(before) or _OVERS_AFTER.match(after)):
        return f"{numbers.cardinal(top)} for {numbers.cardinal(bottom)}"
    if _LAW_BEFORE.search(before):
        year = len(match["top"]) == 4
        return f"{numbers.year(top) if year else numbers.cardinal(top)} slash {numbers.digits(match['bottom'])}"
    if (
        before.endswith("(") and len(match["top"]) == len(match["bottom"]) == 4 and 1500 < top < bottom < 2100
    ):  # two editions
        return f"{numbers.year(top)}, {numbers.year(bottom)}"
    if len(match["top"]) == 4 and len(match["bottom"]) == 2 and match["top"][:2] in ("19", "20"):
        return f"{numbers.year(top)} {numbers.year(bottom)}"
    if top + bottom == 100 and top >= 10:
        return f"{numbers.cardinal(top)} {numbers.cardinal(bottom)}"
    if bottom in _DENOMINATORS and 0 < top < max(10, bottom):
        return fraction(top, bottom)
    return f"{numbers.cardinal(top)} over {numbers.cardinal(bottom)}"


def _is_score(before: str, after: str) -> bool:
    if _OF.match(after):
        return False
    return bool(
        _SCORE_BEFORE.search(before)
        or re.match(r"\s?(?:stars?|points?|marks?|rating|pain|correct|questions?)\b", after)
    ) or (bool(_SCORE_AFTER.match(after)) and not before.strip())


def _decimal_score(match: re.Match[str]) -> str:
    return f"{numbers.number(match['score'])} out of {numbers.number(match['of'])}"


def _negative(match: re.Match[str]) -> str:
    top, bottom = int(match["top"]), int(match["bottom"])
    return f"minus {fraction(top, bottom)}" if bottom in _DENOMINATORS else match[0]


def _built(match: re.Match[str]) -> str:
    top, bottom = int(match["top"].translate(_SUPER)), int(match["bottom"].translate(_SUPER))
    return f" {fraction(top, bottom)} " if bottom else match[0]


RULES: tuple[Rule, ...] = (
    rule(_MINUS, "minus ", [rf"{sign}{digit}" for sign in "-−" for digit in (*VULGAR, r"\d")]),
    rule(r"(?<![\w/])24/7/365(?![\w/])", "twenty-four seven three sixty-five", "24/7/365"),
    rule(r"(?<![\w.,/$])(?P<score>\d{1,2}\.\d{1,2})/(?P<of>5|10|20|100|\d\.0)(?![\w/]|\.\d)", _decimal_score, "digit/"),
    rule(_BUILT, _built, "⁄"),
    rule(_VULGAR, _vulgar_match, tuple(VULGAR)),
    rule(_NEGATIVE, _negative, "digit/"),
    rule(_SLASH, _slash, "digit/"),
)

"""Ranges and scores as words: 10–20, 2010-2015, 3-2, 6-4, 10-4-1, A-Z, 16:9."""

from __future__ import annotations

import re
from string import ascii_uppercase

from server.text.english import numbers
from server.text.english.rules import Rule, rule

_NUMBER = r"\d{1,3}(?:,\d{3})+|\d{1,9}(?:\.\d{1,6})?"
_RANGE = (
    rf"(?=\d)(?<![\w.,/$€£:\-])(?P<start>{_NUMBER})[ ]?[-–][ ]?(?P<end>{_NUMBER})(?P<more>\+)?(?![\w/]|:\d|[.,]\d|-\d)"
)
_TO_MIXED = (
    r"(?<![\w.,/$€£])(?P<first>\d{0,3}[½⅓⅔¼¾⅛⅜⅝⅞]|\d{1,3}(?=[ ]?[-–][ ]?\d{1,3}[ ]?[½⅓⅔¼¾⅛⅜⅝⅞]))[ ]?[-–][ ]?(?=\d)"
)
"""1–1½ hours, 1½-2 cups."""
_MINUS = (
    rf"(?<![\w.,/$€£:\-])(?P<first>{_NUMBER})[ ][-–−][ ](?P<second>{_NUMBER})"
    r"(?=[ ](?:is|equals|makes|gives|leaves|was)[ ](?:not[ ])?-?\d)"
)
"""5 - 3 is 2."""
_TRIPLE = r"(?<![\w.,/$:\-])(?P<first>\d{1,3})[-–](?P<second>\d{1,3})[-–](?P<third>\d{1,3})(?![\w/:\-]|[.,]\d)"
_RECORD = r"""
    (?P<before> ^At[ ](?=\d{1,2}[-–]\d{1,2},)
      | \bthe[ ](?=\d{1,2}[-–]\d{1,2}[ ](?!(?:Player|Month|Year|Week|Day|Hour|Page|Star)s)
          [A-Z][a-z]+s\b)
      | \b(?:[Ww]ent|to[ ]go|(?:[Ii]mproved?|[Ff](?:ell|alls?)|[Dd]rop(?:ped|s)?|[Mm]ove[ds]?)[ ]to)[ ]
        (?=\d{1,3}[-–]\d{1,3}(?:[.,;!?)]|\s*$|[ ](?:and|on|against|overall)\b))
      | \b(?:[Ff]inish(?:ed)?|[Ss]tart(?:ed)?|[Ww]ent|(?:[Tt]hey|[Ww]e)[ ](?:are|were))[ ]
        (?=\d{1,3}[-–]\d{1,3}[ ](?:(?:this|last)[ ]season|overall)\b)
      | \b(?:[Ff]inish(?:ed)?|[Ss]tart(?:ed)?|[Ww]ent|are|were|is|was|sits?|stands?)[ ]
        (?=\d{1,3}[-–]\d{1,3}[ ](?:on[ ]the[ ]season|in[ ](?:conference|league)[ ]play)\b)
      | \band[ ](?=\d{1,3}[-–]\d{1,3}[ ]overall\b)
      | \b[Aa]n?[ ](?=\d{1,3}[-–]\d{1,3}[ ](?:record|start(?![ ](?:times?|dates?|window|range)))\b)
      | \b[Ii]mproved?[ ]to[ ]
        (?=\d{1,3}[-–]\d{1,3}[ ](?:with|after)\b[^.!?\n]{0,40}\b(?:wins?|victory|rout|sweep|shutout|beating)\b)
      | (?:^|(?<=[.!?][ ]))(?:(?i:season|overall|home|away|league|team)[ ])?[Rr]ecord:[ ]
        (?=\d{1,3}[-–]\d{1,3}(?:[ ]\(|[,.;]|\s*$)) )
    (?P<won>\d{1,3})[-–](?P<lost>\d{1,3}) (?![\w/:\-]|[.,]\d)
"""
"""Games won and lost: at 11-2, improved to 5-0."""
_RATIO = r"""
    (?<![\w.,/:]) (?P<first>\d{1,4}(?:\.\d{1,2}(?=:1(?!\d)))?):(?P<second>\d{1,3}(?:,\d{3})+|\d{1,4})
    (?::(?P<third>\d{1,4}))? (?![\w:]|[.,]\d)
"""
_VERSES = r"(?<![\w.,/:])(?P<first>\d{1,3}):(?P<start>\d{1,3})[-–](?P<end>\d{1,3})(?![\w:]|\.\d)"
_SET = r"[0-7][-–][0-7](?:\([0-9]{1,2}\))?"
_SETS = rf"(?<![\w.,/$:\-]){_SET}(?:,?[ ]{_SET}){{1,4}}(?![\w/:\-]|[.,]\d)"
"""The sets of a tennis match: 6-4, 3-6, 7-5."""
_VALID_SETS = [["0", "6"], ["1", "6"], ["2", "6"], ["3", "6"], ["4", "6"], ["5", "7"], ["6", "7"]]
_CODES = r"(?<!\w)(?P<letter>[A-Z])(?P<first>\d{1,2})[-–](?P=letter)(?P<last>\d{1,2})(?!\w|-\d)"
"""P1–P3."""
_TEN_FOUR = r"(?P<before>\b[Rr]oger,?[ ]|\b[Tt]hat's[ ]a[ ]|^)10-4(?=[.,!?;]|[ ]good[ ]buddy|\s*$)"
"""Roger, 10-4."""
_GRADES = r"(?P<before>\b[Gg]rades?[ ])K[-–](?P<grade>\d{1,2})(?!\w|-\d)"
_LETTERS = r"""
    (?<![\w.\-]) (?!X-Y|A-B[ ][tc]|V-[EJ][ ]D) (?P<start>[A-Z]|X{1,3}[SL]) [-–] (?!(?P=start))
    (?P<end>[A-Z]|X{1,3}[SL]) (?![\w\-]|\.\w)
"""
"""A-F. "I-I don't know" is a stutter."""
_PAIR = r"(?<![\w.\-])(?:[AX]-[BY]|V-[EJ](?=[ ]Day))(?![\w\-])"
"""Two letters that are no range: the X-Y plane, an A-B test, V-E Day."""
_ORDINALS = r"(?<![\w.\-])(?P<start>\d{1,4}(?:st|nd|rd|th))[ ]?[-–][ ]?(?P<end>\d{1,4}(?:st|nd|rd|th))(?!\w)"


def _span(match: re.Match[str]) -> str:
    start, end = match["start"], match["end"]
    if start == end and start in ("20", "50"):
        return f"{numbers.number(start)}-{numbers.number(end)}"
    words = f"{_one(start, end)} to {_one(end, start)}"
    return f"{words} plus" if match["more"] else words


def _record(match: re.Match[str]) -> str:
    won, lost = int(match["won"]), int(match["lost"])
    if won + lost in (40, 100):  # 50-50, 20-20, 60-40
        return match[0]
    before = match["before"]
    if before in ("a ", "A ") and not won:
        before = f"{before[0]}n "
    return before + " and ".join(numbers.cardinal(each) if each else "oh" for each in (won, lost))


def _one(text: str, other: str) -> str:
    """Return one end of a range in words. Two numbers that can be years are years."""
    if _is_year(text) and (_is_year(other) or len(other) == 2):
        return numbers.year(int(text))
    return numbers.number(text) if len(text) > 1 and text[0] == "0" and "." in text else _plain(text)


def _plain(text: str) -> str:
    return numbers.number(text.lstrip("0") or "0") if len(text) <= 2 else numbers.number(text)


def _is_year(text: str) -> bool:
    return len(text) == 4 and text.isdecimal() and 1000 <= int(text) <= 2199


def _triple(match: re.Match[str]) -> str:
    return " ".join(numbers.cardinal(int(match[name])) for name in ("first", "second", "third"))


def _ratio(match: re.Match[str]) -> str:
    parts = [numbers.number(part) for part in match.groups() if part]
    return " to ".join(parts)


def _sets(match: re.Match[str]) -> str:
    sets = re.findall(r"(\d)[-–](\d)(?:\((\d+)\))?", match[0])
    if not all(sorted(games[:2]) in _VALID_SETS for games in sets):
        return match[0]
    return ", ".join(" ".join(numbers.cardinal(int(each)) for each in games if each) for games in sets)


def _codes(match: re.Match[str]) -> str:
    first, last = (f"{match['letter']} {numbers.cardinal(int(match[each]))}" for each in ("first", "last"))
    return f"{first} to {last}"


EARLY: tuple[Rule, ...] = (
    rule(_TO_MIXED, r"\g<first> to ", tuple("½⅓⅔¼¾⅛⅜⅝⅞")),
    rule(
        r"(?<![\w.:])(?P<a>\w{1,3})[ ]:[ ](?P<b>\w{1,3})[ ]=[ ](?P<c>\w{1,3})[ ]:[ ](?P<d>\w{1,3})(?![\w:])",
        r"\g<a> to \g<b> = \g<c> to \g<d>",
        " : ",
    ),
    rule(
        r"(?:(?<=\d[ ]BCE)|(?<=\d[ ]BC)|(?<=\d[ ]CE)|(?<=\d[ ]AD))[ ]?[-–][ ]?(?=(?:AD[ ])?\d)",
        " to ",
        ("BC", "CE", "AD"),
    ),
    rule(_CODES, _codes, "letter digit"),
    rule(
        r"(?<![\w.,/$:\-])(?P<runs>\d{2,3})[-–](?P<wickets>\d)(?=[ ](?:at|before|by)[ ](?:lunch|tea|stumps)\b)",
        r"\g<runs> for \g<wickets>",
        ("lunch", "tea", "stumps"),
    ),
    rule(_TEN_FOUR, r"\g<before>ten four", "10-4"),
)
"""Run before rules for codes such as A1."""

RULES: tuple[Rule, ...] = (
    rule(_RECORD, _record, (r"\d-\d", r"\d–\d")),
    rule(_SETS, _sets, (r"\d-\d", r"\d–\d")),
    rule(_GRADES, lambda match: f"{match['before']}K to {numbers.cardinal(int(match['grade']))}", ("K-", "K–")),
    rule(
        _ORDINALS,
        r"\g<start> to \g<end>",
        [rf"{suffix}{space}{dash}" for suffix in ("st", "nd", "rd", "th") for space in ("", " ") for dash in "-–"],
    ),
    rule(
        _VERSES, lambda match: f"{_plain(match['first'])}, {_plain(match['start'])} to {_plain(match['end'])}", "digit:"
    ),
    rule(
        _MINUS,
        lambda match: f"{numbers.number(match['first'])} minus {numbers.number(match['second'])}",
        tuple(rf"\d {mark} \d" for mark in "-–−"),
    ),
    rule(_TRIPLE, _triple, (r"\d-\d", r"\d–\d")),
    rule(_RANGE, _span, "digit-"),
    rule(_RATIO, _ratio, "digit:"),
    rule(_LETTERS, r"\g<start> to \g<end>", [f"{letter}{dash}" for letter in ascii_uppercase for dash in "-–"]),
    rule(_PAIR, lambda match: match[0].replace("-", " "), ("A-B", "A-Y", "X-B", "X-Y", "V-E", "V-J")),
)

"""Verses as words: John 3:16, 1 Cor. 13:4-7, Quran 2:255."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, alternatives, rule

_BOOKS = {
    short: name
    for name, *shorts in (
        line.split()
        for line in """
            Genesis Gen Gn
            Exodus Exod Exo Ex
            Leviticus Lev
            Numbers Num
            Deuteronomy Deut Dt
            Joshua Josh
            Judges Judg
            Ruth
            Samuel Sam
            Kings Kgs
            Chronicles Chron Chr
            Nehemiah Neh
            Job
            Psalm Ps Psa Pss
            Psalms
            Proverbs Prov Prv
            Ecclesiastes Eccl Ecc
            Isaiah Isa
            Jeremiah Jer
            Lamentations Lam
            Ezekiel Ezek Eze
            Daniel Dan
            Hosea Hos
            Joel
            Amos
            Jonah
            Micah Mic
            Habakkuk Hab
            Zechariah Zech
            Malachi Mal
            Matthew Matt Mt
            Mark Mk
            Luke Lk
            John Jn
            Acts
            Romans Rom
            Corinthians Cor
            Galatians Gal
            Ephesians Eph
            Philippians Phil
            Colossians Col
            Thessalonians Thess
            Timothy Tim
            Titus Tit
            Hebrews Heb
            James Jas
            Peter Pet
            Jude
            Revelation Rev
        """.strip().splitlines()
    )
    for short in (name, *shorts)
}
_NTH = {"1": "First ", "2": "Second ", "3": "Third "}
_VERSES = rf"""
    (?<![\w.]) (?:(?P<nth>[1-3])[ ])? (?P<book>{alternatives(_BOOKS)})\.?[ ]
    (?P<chapter>\d{{1,3}}):(?P<verse>\d{{1,3}})(?P<part>[abc])? (?:[-–](?P<to>\d{{1,3}}))?
    (?P<more>(?:,[ ]?\d{{1,3}}(?![\d:]|[ ][A-Z])){{1,4}})?
    (?![\w:]|[.,]\d|[ ][ap]\.?m)
"""


_NUMBERED = "Cor Sam Kgs Chr Chron Thess Tim Pet Corinthians Samuel Chronicles Thessalonians Timothy Peter".split()
_CHAPTER = rf"""
    (?<![\w.]) (?P<nth>[12])[ ](?P<book>{alternatives(_NUMBERED)})\.?[ ]
    (?P<chapter>\d{{1,3}})(?:[-–](?P<to>\d{{1,3}}))?
    (?=[.;:)!?]?(?:\s*$|[ ][A-Z])|,[ ]|[ ](?:and|or|is|are|says|in|for|with|deals|teaches
      |describes|before|after|on|at|tonight|today|aloud)\b)
"""
"""1 Cor. 13, 1 Sam. 8–10."""


def _verses(match: re.Match[str]) -> str:
    words = f"{_NTH.get(match['nth'] or '', '')}{_BOOKS[match['book']]} {numbers.number(match['chapter'])}, "
    words += numbers.number(match["verse"]) + (f" {match['part'].upper()}" if match["part"] else "")
    if match["to"]:
        words += f" to {numbers.number(match['to'])}"
    return words + "".join(f", {numbers.number(each)}" for each in re.findall(r"\d+", match["more"] or ""))


RULES: tuple[Rule, ...] = (
    rule(_VERSES, _verses, "digit:"),
    rule(
        _CHAPTER,
        lambda match: (
            f"{_NTH[match['nth']]}{_BOOKS[match['book']]} {numbers.number(match['chapter'])}"
            + (f" to {numbers.number(match['to'])}" if match["to"] else "")
        ),
        ("1 ", "2 "),
    ),
    rule(
        r"\b(?P<book>Surahs?|Suras?|Qur[’']?an|Koran)[ ](?P<chapter>\d{1,3}):(?P<verse>\d{1,3})(?![\w:])",
        r"\g<book> \g<chapter>, \g<verse>",
        "digit:",
    ),
)
"""Run before times and ratios."""

"""Telephone, card and identity numbers digit by digit, in the groups they are written in."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule

_TOLL_FREE = frozenset("800 900".split())
_BEFORE = r"(?<![\w.\-/$])"
_AFTER = r"(?![\w\-/]|\.\d)"
_INTERNATIONAL = r"(?<![\w.+])\+(?P<country>\d{1,3})(?P<rest>(?:[ .\-]?\(?\d{1,5}\)?){2,7})(?!\w)"
_AMERICAN = rf"""
    {_BEFORE} (?:(?P<one>1)[ .\-])? (?:\((?P<area>\d{{3}})\)[ ]? | (?P<plain>\d{{3}})[ .\-])
    (?P<middle>\d{{3}}) [ .\-] (?P<last>\d{{4}}) {_AFTER}
"""
_LOCAL = rf"(?<![\w.\-/$(])(?P<middle>\d{{3}})-(?P<last>\d{{4}}){_AFTER}"
_PHONE_WORDS = "number phone call dial tel telephone cell mobile fax text".split()
_SPACED = rf"""
    (?P<before>
        \b(?i:{"|".join(_PHONE_WORDS)}) (?:[ ](?:is|us|me|at|number|on|to)){{0,3}} :?[ ]
      | \b(?:[Rr]each|[Cc]ontact)[ ](?:us|me|him|her|them)[ ](?:at|on)[ ]
    )
    (?P<middle>\d{{3}}) [ .] (?P<last>\d{{3,4}}) {_AFTER}
  | (?<=\bon[ ])(?P<third>\d{{3}})[ ](?P<fourth>\d{{3}}){_AFTER}
"""
"""A local number with a space, "555 0142". Without a word such as "call" before it, it could be two numbers."""
_TRUNK = rf"(?<![\w.\-/$+])0\d{{1,4}}(?:[ \-]\d{{3,8}}){{1,3}}{_AFTER}"
"""A number of other countries, "020 7946 0123"."""
_FREE = rf"{_BEFORE}1[38]00(?P<rest>(?:[ ]\d{{3}}){{2}}){_AFTER}"
"""1800 278 278, as in Ireland and Australia."""
_FIVE_FIVE = rf"{_BEFORE}[6-9]\d{{4}}[ ]\d{{5}}{_AFTER}"
"""98450 12345, as in India."""
_VANITY = r"(?<!\w)(?P<one>1-)?(?P<area>8\d\d)-(?P<word>[A-Z]{3,10}(?:-[A-Z]{3,10})?)(?!\w)"
_SOCIAL = rf"{_BEFORE}\d{{3}}-\d{{2}}-\d{{4}}{_AFTER}"
_CARD = rf"{_BEFORE}\d{{4}}(?P<mark>[ \-])\d{{4}}(?P=mark)\d{{4}}(?P=mark)\d{{1,7}}(?![\w\-/])"
_AMEX = rf"{_BEFORE}\d{{4}}[ \-]\d{{6}}[ \-]\d{{5}}(?![\w\-/])"
_MASKED = r"(?<!\w)(?:[xX*•]{2,16}[ \-]?){1,4}(?P<digits>\d{3,5})(?!\w)"
_CALL_WORDS = "dial dialed dialled call called text phone ring rang".split()
_EMERGENCY = r"(?<![\w.$\-–])911(?![\w.,%–\-]\w|\w|[ ](?:people|points|miles|pages|times|items|days)\b)"
_SHORT = rf"""
    (?P<before>\b(?i:{"|".join(_CALL_WORDS)})[ ])
    (?P<digits>\d{{3}}) (?! [\w%–\-] | [.,]\d | [ ](?:people|times|men|of)\b )
"""
_STAR = r"(?P<before>\b(?i:dial|press|call|enter|use|punch[ ]in)[ ])\*(?P<digits>\d{2,3})(?P<key>\#)?(?!\w|\*)"
"""Dial *67."""
_RELAY = r"(?<!\w)(?P<label>TTY|TDD)(?P<link>:?[ ])(?P<digits>\d{3})(?!\w)"
_SHORT_CODE = r"(?P<before>\b[Tt]ext\b[^.!?\n]{1,40}\bto[ ])(?P<digits>\d{5,6})(?!\w|[.,]\d)"
_SERVICES = r"""
    (?<![\w.,$-]) (?P<first>[2-9]11)
    (?P<link> [ ](?:or|and|vs\.?)[ ] | ,[ ] | / | (?<=911),[ ]not[ ] | ,[ ]not[ ](?=911) )
    (?P<last>[2-9]11) (?![\w%]|[.,]\d)
"""
"""911 or 311."""


def _international(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match["rest"].replace("(0)", ""))
    if sum(map(len, groups)) < 6:
        return match[0]
    return ", ".join([f"plus {numbers.digits(match['country'])}", *map(numbers.digits, _split(groups))])


def _split(groups: list[str]) -> list[str]:
    """Split a number without groups into groups of three and four digits."""
    if len(groups) > 1:
        return groups
    (group,) = groups
    return [group[:3], group[3:6], group[6:]] if len(group) > 7 else [group[:3], group[3:]]


def _american(match: re.Match[str]) -> str:
    area = match["area"] or match["plain"]
    head = ["one"] if match["one"] else []
    head.append(numbers.cardinal(int(area)) if match["one"] and area in _TOLL_FREE else numbers.digits(area))
    return ", ".join([*head, numbers.digits(match["middle"]), numbers.digits(match["last"])])


def _vanity(match: re.Match[str]) -> str:
    one = "one, " if match["one"] else ""
    return f"{one}{numbers.grouped(match['area'])}, {match['word'].lower().replace('-', ' ')}"


def _groups(match: re.Match[str]) -> str:
    return ", ".join(map(numbers.digits, re.findall(r"\d+", match[0])))


def _free(match: re.Match[str]) -> str:
    hundred = "eight" if match[0][1] == "8" else "three"
    return ", ".join([f"one {hundred} hundred", *map(numbers.digits, match["rest"].split())])


def _local(match: re.Match[str]) -> str:
    first, last = match["middle"] or match["third"], match["last"] or match["fourth"]
    return f"{match['before'] or ''}{numbers.digits(first)}, {numbers.digits(last)}"


def _after_words(match: re.Match[str]) -> str:
    return match["before"] + numbers.digits(match["digits"])


RULES: tuple[Rule, ...] = (
    rule(
        _SERVICES,
        lambda match: f"{numbers.digits(match['first'])}{match['link']}{numbers.digits(match['last'])}",
        ("11 ", "11,", "11/"),
    ),
    rule(_VANITY, _vanity, r"\d\d\d-"),
    rule(_SHORT_CODE, _after_words, ("text",)),
    rule(
        _STAR,
        lambda match: f"{match['before']}star {numbers.digits(match['digits'])}{' pound' if match['key'] else ''}",
        "*",
    ),
    rule(_RELAY, lambda match: f"{match['label']}{match['link']}{numbers.digits(match['digits'])}", ("tty", "tdd")),
    rule(_INTERNATIONAL, _international, "+"),
    rule(_CARD, _groups, (r"\d\d\d\d \d\d\d\d", r"\d\d\d\d-\d\d\d\d")),
    rule(_AMEX, _groups, r"\d" * 6),
    rule(
        _MASKED,
        lambda match: f"ending in {numbers.digits(match['digits'])}",
        [rf"{mark}{joint}\d" for mark in "xX*•" for joint in ("", " ", "-")],
    ),
    rule(_AMERICAN, _american, (r"\d\d\d \d\d\d\d", r"\d\d\d.\d\d\d\d", r"\d\d\d-\d\d\d\d")),
    rule(
        _SPACED,
        _local,
        (r"\d\d\d \d\d\d", r"\d\d\d.\d\d\d"),
    ),
    rule(_FREE, _free, r"\d\d\d\d \d\d\d \d\d\d"),
    rule(_FIVE_FIVE, _groups, r"\d\d\d\d\d \d\d\d\d\d"),
    rule(_TRUNK, _groups, (r"\d \d\d\d", r"\d-\d\d\d")),
    rule(_SOCIAL, _groups, r"\d\d\d-\d\d-\d\d\d\d"),
    rule(_LOCAL, _groups, r"\d\d\d-\d\d\d\d"),
    rule(r"(?<!\w)\d{3}(?=[ ]area[ ]codes?\b)", lambda match: numbers.digits(match[0]), ("area",)),
    rule(_EMERGENCY, "nine one one", "911"),
    rule(_SHORT, _after_words, [rf"{end} \d\d\d" for end in "ldtegLDTEG"]),
)

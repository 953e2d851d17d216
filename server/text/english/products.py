"""Numbers in names of products, in the groups in which people say them: RTX 4090, i7-13700K, MI300X, A320neo, 501s."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.rules import Rule, rule

_CARDS = "RTX GTX RX Quadro Radeon GeForce Xeon EPYC Threadripper Ryzen Celeron Pentium Exynos Dimensity Arc"
_CARD = rf"""
    (?<!\w) (?P<name>(?:{"|".join(_CARDS.split())}) (?:[ ](?:PRO|Pro|TI|Ti|Gold|Silver|Platinum|Max\+?))? (?:[ ]AI)?)
    (?:[ ](?P<tier>[3579])(?=[ ]))? [ \-]? (?P<number>\d{{3,5}})(?P<letters>X3D|[A-Z]{{1,3}}|[a-z])? (?![\w%]|[.,]\d)
"""
_CORE = r"(?<![\w.\-])i(?P<tier>[3579])[ \-](?P<number>\d{4,5})(?P<letters>[A-Z]{1,3}\d?)?(?![\w\-]|[.,]\d)"
"""i7-13700K, i9 14900KS, i7-1165G7."""
_STACKED = r"(?<![\w.\-])(?P<number>\d{4})X3D(?!\w)"
_SERVER = r"(?<![\w.\-])(?P<name>MI|GH|GB|[ABHLPV])(?P<number>[1-9]\d?0)(?P<letters>[SXAG])(?![\w\-]|\.\d)"
"""Accelerators: MI300X, L40S, A10G. Those without a letter at the end need no rule."""
_LETTER = r"(?<![\w.\-])(?P<name>[A-Z])(?P<number>\d0{2})(?![\w\-%]|[.,]\d)"
"""H100, A100. "H1" alone is half a year."""
_MEMORY = r"(?<!\w)(?P<name>(?:LP)?DDR[2-6]X?|E[357])-(?P<number>\d{3,5})(?!\w)"
_JET = r"""
    (?<![\w.\-]) (?P<name>7\d7|A[23]\d\d) (?:-(?P<variant>[789]|10|[1-9]00|1000))?
    (?P<letters>ERF|ER|LR|XLR|F|SP|D|neo|ceo)?
    (?: [ ](?P<max>MAX)(?:[ \-](?P<number>\d{1,2}))? )? (?P<plural>s)? (?![\w\-]|[.,]\d)
"""
"""787-9, 777-300ER, 737-800s, A320neo, 737 MAX 8."""
_WIRELESS = r"(?<![\w.])802\.(?P<group>\d{1,2})(?P<letters>[a-z]{1,2})?(?!\w|\.\d)"
_NAMED = r"""
    (?<!\w) (?P<name>Levi's|Levis|Formula|Fahrenheit|Peugeot|Kawasaki|Ferrari|Boeing|Ducati|B&W)[ ]
    (?P<number>\d{3})(?P<plural>s)? (?![\w%]|[.,]\d)
"""
_PLURAL = r"(?<![\w.,$€£\-])(?P<number>7\d7|501|911)s(?![\w'])"
"""747s, 501s, 911s: not seconds."""


def _grouped(number: str) -> str:
    """Return a number in groups of two, the first of one or two digits: 13700 is "thirteen seven hundred"."""
    if len(number) < 5:
        return numbers.grouped(number)
    return f"{numbers.cardinal(int(number[:2]))} {numbers.grouped(number[2:])}"


def _spelled(text: str | None) -> str:
    return f" {letters.spell(text)}" if text else ""


def _card(match: re.Match[str]) -> str:
    tier = f" {numbers.digits(match['tier'])}" if match["tier"] else ""
    return f"{match['name']}{tier} {_grouped(match['number'])}{_spelled(match['letters'])}"


def _core(match: re.Match[str]) -> str:
    return f"I {numbers.digits(match['tier'])} {_grouped(match['number'])}{_spelled(match['letters'])}"


def _accelerator(match: re.Match[str]) -> str:
    return f"{letters.spell(match['name'])} {numbers.grouped(match['number'])}{_spelled(match['letters'])}"


def _jet(match: re.Match[str]) -> str:
    """Return the name of an airliner. A number alone is unchanged, for other rules."""
    if match["variant"] is None and match["letters"] is None and match["max"] is None:
        return match[0]
    name = match["name"]
    words = [numbers.grouped(name) if name.isdecimal() else f"A {numbers.grouped(name[1:])}"]
    words += [numbers.grouped(match["variant"])] if match["variant"] else []
    if match["letters"] in ("neo", "ceo"):
        words.append(match["letters"])
    elif match["letters"]:
        words.append(letters.spell(match["letters"]))
    words += ["Max"] if match["max"] else []
    words += [numbers.cardinal(int(match["number"]))] if match["number"] else []
    return numbers.plural_number(" ".join(words)) if match["plural"] else " ".join(words)


def _wireless(match: re.Match[str]) -> str:
    return f"eight oh two dot {numbers.grouped(match['group'])}{_spelled(match['letters'])}"


def _named(match: re.Match[str]) -> str:
    words = numbers.grouped(match["number"])
    return f"{match['name']} {numbers.plural_number(words) if match['plural'] else words}"


RULES: tuple[Rule, ...] = (
    rule(_CARD, _card, {name.lower() for name in _CARDS.split()}),
    rule(_CORE, _core, "letter digit"),
    rule(_STACKED, lambda match: f"{_grouped(match['number'])} X three D", "X3D"),
    rule(_SERVER, _accelerator, "letter digit"),
    rule(_LETTER, lambda match: f"{match['name']} {numbers.grouped(match['number'])}", "letter digit"),
    rule(_MEMORY, lambda match: f"{letters.spell(match['name'])} {_grouped(match['number'])}", "letter digit"),
    rule(_JET, _jet, ("A2", "A3", *(f"7{digit}7" for digit in range(10)))),
    rule(_WIRELESS, _wireless, ("802",)),
    rule(
        _NAMED,
        _named,
        ("levi", "levis", "formula", "fahrenheit", "peugeot", "kawasaki", "ferrari", "boeing", "ducati", "B"),
    ),
    rule(_PLURAL, lambda match: numbers.plural_number(numbers.grouped(match["number"])), ("1s", "7s")),
)

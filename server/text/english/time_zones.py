"""Time zones as letters: 3 p.m. EST, 14:05 UTC+2, GMT-4."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule

ZONES = (
    "UTC|GMT|EST|EDT|CST|CDT|MST|MDT|PST|PDT|CET|CEST|BST|IST|JST|AEST|AEDT|EET|EEST|WET|ET|CT|MT|PT|SGT|HKT|KST|AKST"
)
_ZONE = (
    rf"(?:(?<=[a-z.])[ ]|(?<!\w)(?=(?:UTC|GMT)[+−-]\d))(?P<zone>{ZONES})(?:(?P<offset>[+−-]\d{{1,2}})(?::?00)?)?(?!\w)"
)


def _zone(match: re.Match[str]) -> str:
    words = (" " if match[0][0] == " " else "") + " ".join(match["zone"])
    if match["offset"]:
        sign = "plus" if match["offset"][0] == "+" else "minus"
        words += f" {sign} {numbers.cardinal(int(match['offset'][1:]))}"
    return words


RULES: tuple[Rule, ...] = (rule(_ZONE, _zone, frozenset(ZONES.lower().split("|"))),)
"""Run after times."""

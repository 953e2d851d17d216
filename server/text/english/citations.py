"""Citations of laws and books as words: Section 230(c)(1), Rule 12(b)(6), ibid., op. cit., K. 545."""

from __future__ import annotations

import re

from server.text.english import letters, numbers, roman
from server.text.english.rules import Rule, rule

_LAW = (
    r"\b(?:[Ss]ec|[Aa]rt|[Pp]ara|[Rr]eg|[Cc]l)\.[ ]?|§[ ]?|"
    r"\b(?:(?:[Ss]ub)?[Ss]ections?|[Aa]rticle|[Rr]ule|[Rr]egulation|[Cc]lause|[Pp]aragraph|[Ss]chedule)[ ]"
)
_SUBSECTION = rf"""
    (?P<label>{_LAW})? (?<![\w.,])(?P<number>\d{{1,4}}[A-Z]?)
    (?P<parts> (?(label) (?:\((?:[a-z]|\d{{1,2}}|[ivx]{{2,4}})\)){{1,6}}
      | (?<=\d\d)(?:\([a-z]\)\(\d{{1,2}}\)){{1,3}} ) ) (?!\w)
"""
_CITED_BEFORE = r"\b(?P<word>[Ii]bid|[Oo]p|[Ll]oc)\.(?P<cited>[ ]cit)?\.?(?=[,;)]|[ ]?cit\.)"
_CATALOGS = r"(?<=\bK)\.[ ](?=\d{1,3}[a-z]?(?:[.,;:)]|[ ](?:in|by|is|was)\b|\s*$))"
"""Mozart's works: K. 545."""


def _subsection(match: re.Match[str]) -> str:
    parts = re.findall(r"\w+", match["parts"])
    spoken = (
        part
        if part.isdigit()
        else numbers.cardinal(roman.value(part.upper()))
        if len(part) > 1
        else letters.spell(part.upper())
        for part in parts
    )
    number = match["number"]
    number = numbers.grouped(number) if re.fullmatch(r"[1-9]0[1-9]", number) else number  # five oh one C three
    comma = "," if parts[0].isdigit() else ""  # Article 50(2) is not Article 52
    return f"{match['label'] or ''}{number}{comma} {' '.join(spoken)}"


RULES: tuple[Rule, ...] = (
    rule(_SUBSECTION, _subsection, "subsection"),
    rule(_CITED_BEFORE, r"\g<word>\g<cited>", ("ibid", "cit.")),
    rule(_CATALOGS, " ", "K. "),
)
"""Run before numbers are put into words, and before abbreviations such as Sec. and Art."""

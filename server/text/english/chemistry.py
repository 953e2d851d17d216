"""Notation of chemistry and biology as words: C6H12O6, Fe³⁺, SO4^2-, OH-, the 3' end of a strand."""

from __future__ import annotations

import re
from functools import lru_cache

from server.text.english import letters, numbers
from server.text.english.maths import DOWN, SUBSCRIPTS
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_ELEMENT = (
    "He|Li|Be|Ne|Na|Mg|Al|Si|Cl|Ar|Ca|Sc|Ti|Cr|Mn|Fe|Co|Ni|Cu|Zn|Ga|Ge|As|Se|Br|Rb|Sr|Zr|Ag|Cd|Sn|Sb|Te|Cs|Ba|Pt|Au|Hg|Pb|"
    "[HBCNOFPSKVIWU]"
)
_FORMULA_ELEMENT = "Na|Cl|Ca|Fe|Mg|Al|Cu|Zn|Ag|Si|Br|Li|Mn|Pb|[CHNOSPFK]"
_FORMULA = rf"(?<![\w\-])(?=[A-Za-z]*\d)(?:(?:{_FORMULA_ELEMENT})\d{{0,2}}){{2,9}}(?![\w\-]|\.\d)"
"""The formula of a compound: C6H12O6."""
_ATOMS = rf"(?:(?:{_ELEMENT})[\d₀-₉]{{0,2}}){{1,6}}"
_CHARGED = rf"""
    (?<![\w\-+]) (?P<atoms>{_ATOMS}) (?: \^\{{?(?P<typed>\d?[-+−])\}}? | (?P<raised>[²³⁴]?[⁺⁻]) ) (?!\w)
"""
"""An ion with its charge in a superscript: Fe³⁺, SO4^2-."""
_IONS = "Cl F Br I OH CN NO2 NO3 HCO3 HSO4 H2PO4 ClO ClO3 ClO4 MnO4 CH3COO".split()
_ANION = rf"""
    (?<![\w\-+]) (?P<atoms>{"|".join(sorted(_IONS, key=len, reverse=True))}) [-−]
    (?=[ ](?:ions?|anions?)\b | (?<!I-)(?:[ ](?:and|or|in|is)\b|[,;)]|\.?$))
  | (?<![\w\-+]) (?P<acid>NO3|HCO3|H2PO4|HSO4|MnO4|ClO4|ClO3|NO2) [-−] (?=[\s.,;)]|$)
"""
_CATION = r"""
    (?<![\w\-+]) (?P<atoms>(?:Li|Na|Mg|Al|Ca|Cr|Mn|Fe|Co|Ni|Cu|Zn|Ag|Sn|Ba|Hg|Pb|NH4|H3O)[1-4]?)
    \+ (?=[\s.,;:)/]|-[a-z]|$)
"""
_STRAND_END = r"""
    (?<![\w.,]) (?P<end>[35]) ['′]
    (?= [ -](?:ends?|UTRs?|untranslated|caps?|overhangs?|flank\w*|termin\w+|splice|phosphate|hydroxyl|exonuclease|strand
          |splicing|adapter|carbon|region|poly|to[ ][35]['′]|and[ ][35]['′]|or[ ][35]['′])
      | -[ACGTUN]{3} | [ ]?(?:→|->|[-–])[ ]?[35]['′] | [ ](?:direction|ends?|orientation) )
  | (?<=\b[35]['′][ ]to[ ])(?P<last>[35])['′] | (?<=[35]['′]→)(?P<arrow>[35])['′] | (?<=[ACGTUN]{3}-)(?P<after>[35])['′]
"""
"""The ends of a strand of DNA: 5' to 3'."""
_BIOLOGY = lazy(
    r"NA\b|[ACGTU]{3}|\bUTRs?\b|[35]['′] ?(?:to|→|->|[-–]) ?[35]['′](?!\w| (?:tall|long|wide|high|deep))"
    r"|\b(?:strands?|primers?|genes?|exons?|introns?|nucle\w+|\w+merase|transcri\w+|oligo\w*|codons?|\w*ligase|helix"
    r"|hydroxyl|phosphate|exonuclease|splic\w+|untranslated|polyadenyl\w+)\b"
)
"""Words of texts in which 5' and 3' are no feet."""


@lru_cache(8)
def _is_biology(text: str) -> bool:
    return bool(_BIOLOGY.search(text))


def _formula(match: re.Match[str]) -> str:
    return _spelled(match[0])


def _spelled(formula: str) -> str:
    """Return the elements of a formula letter by letter and its counts as numbers."""
    parts = re.findall(r"[A-Z][a-z]?|\d+", formula.translate(SUBSCRIPTS))
    return " ".join(numbers.cardinal(int(each)) if each.isdecimal() else letters.spell(each) for each in parts)


def _charged(match: re.Match[str]) -> str:
    charge = (match["typed"] or match["raised"].translate(DOWN)).replace("−", "-")
    count = f" {numbers.digits(charge[:-1])}" if len(charge) > 1 else ""
    return f"{_spelled(match['atoms'])}{count} {'minus' if charge[-1] == '-' else 'plus'}"


def _strand_end(match: re.Match[str]) -> str:
    if not _is_biology(match.string):
        return match[0]
    end = match["end"] or match["last"] or match["arrow"] or match["after"]
    return f"{numbers.digits(end)} prime"


FIRST: tuple[Rule, ...] = (
    rule(_CHARGED, _charged, ("^", *"⁺⁻")),
    rule(
        rf"(?<![\w\-])(?=[A-Za-z]{{1,6}}[₀-₉])(?:(?:{_ELEMENT})[₀-₉]{{0,2}}){{1,8}}(?![\w\-])",
        _formula,
        tuple("₀₁₂₃₄₅₆₇₈₉"),
    ),
)
"""Run before powers, subscripts and numbers are read."""

_SALT_NAMES = "NaCl|KCl|HCl|HBr|NaOH|KOH|LiCl|AgCl|NaF|KBr|CaO|MgO|ZnO|CuO|LiOH|CsCl"
_SALTS = rf"(?<![\w\-])(?:{_SALT_NAMES})(?![\w\-])"
_MOLAR = r"(?<=\d)[ ]?M(?=[ ](?:NaCl|KCl|HCl|NaOH|KOH|H2SO4|HNO3|NaF|LiCl|Tris|EDTA|sucrose|glucose|solution|soln)\b)"
"""0.1 M HCl."""

RULES: tuple[Rule, ...] = (
    rule(_MOLAR, " molar", (" M ", *(f"{digit}M " for digit in range(10)))),
    rule(_SALTS, lambda match: _spelled(match[0]), _SALT_NAMES.lower().split("|")),
    rule(
        _ANION,
        lambda match: f"{_spelled(match['atoms'] or match['acid'])} minus",
        [f"{end}{sign}" for end in "234OlrHNFI" for sign in "-−"],
    ),
    rule(_CATION, lambda match: f"{_spelled(match['atoms'])} plus", "+"),
    rule(_STRAND_END, _strand_end, ("3'", "5'", "′")),
    rule(_FORMULA, _formula, "letter digit"),
)
"""Run before numbers with letters are taken for codes."""

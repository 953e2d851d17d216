"""Expressions as words: 2+2=4, x², 10^6, 7 × 8, √16, f(x) = 2x, x ≥ 5."""

from __future__ import annotations

import re
import unicodedata

from server.text.english import fractions, letters, numbers
from server.text.english.formula_words import GREEK_LETTERS, OPERATORS, RELATIONS
from server.text.english.rules import Rule, rule
from server.text.english.unit_words import UNITS
from server.text.patterns import lazy

_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ"
DOWN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-")
_OPERATORS = {sign: words for sign, words in (RELATIONS | OPERATORS).items() if not sign.isalpha()} | {
    "==": "equals equals",
    "–": "minus",
    "x": "times",
    "/": "divided by",
    "%": "mod",
}
WORDS = "is|of|at|be|by|in|on|or|to|up|we|so|no|my|me|it|if|he|go|do|as|am|an|us|oh|ok|hi|vs|cm|mm|km|kg|mg|pi"
"""Words of two letters, which are not a product of two variables."""
_NAMED_GREEK = tuple(letter for letter in GREEK_LETTERS if letter not in "μΩ")
"""Greek letters that are read by name everywhere. The others can also be units."""
_LETTER = rf"(?<![α-ωΑ-Ω])(?P<letter>[{''.join(_NAMED_GREEK)}])(?P<power>[{_SUPERSCRIPTS}]{{1,4}})?(?![α-ωΑ-Ω])"
_NUMBER = r"\d{1,30}(?:,\d{3}){0,8}(?:\.\d{1,30})?"
_POWER = rf"(?:[{_SUPERSCRIPTS}]{{1,6}}|\^(?:\(-?\w{{1,6}}\)|-?\d{{1,4}}\.\d{{1,4}}(?![.\w])|-?\w{{1,6}}))"
_GREEK_LETTERS = "".join(GREEK_LETTERS)
_ATOM = rf"""
    (?: {_NUMBER} (?:/\d{{1,6}}(?!\d))? (?:[a-z]{{1,2}}(?![a-z\d]))?    # 12, 3/4, 3x, 2ab
      | (?!(?:{WORDS})(?!\w)) [a-zA-Z{_GREEK_LETTERS}] (?:[a-z](?![a-zA-Z0-9_']))? (?![a-zA-Z0-9_'])    # x, mc
      | ∞ )
    (?:{_POWER})? !?
"""
_OPERAND = rf"[-−+±]?√?\({{0,2}}[-−]?√?(?:{_ATOM})(?:\([a-z0-9]{{1,3}}\))?\){{0,2}}(?:{_POWER})?%?"
_OPERATOR = r"""
    (?: (?<=\w\))(?=\(\w)                           # the product (a + b)(a - b)
      | [ ]?(?:==|!=|<=|>=|[=+*×·⋅÷<>≤≥≠≈±≡∝])[ ]?    # these also without spaces
      | [ ][-−–/x%][ ]                                # these have another meaning within words
      | (?<=[\d)²³])[-−/x](?=[\d(√]) )
"""
_EXPRESSION = rf"""
    (?<![\w.,$€£\-/'\"]) {_OPERAND} (?:{_OPERATOR}{_OPERAND}){{1,40}} (?:[ ]?=(?=\s|$|[?_.]))? (?!\w)
"""
_TOKEN = lazy(
    rf"""
    (?P<fraction>(?<![\d/])\d{{1,4}}/\d{{1,4}}(?![\d/]))
  | (?P<number>{_NUMBER})
  | (?P<power>{_POWER})
  | (?P<name>[a-zA-Z]+|[{_GREEK_LETTERS}])
  | (?P<operator>==|!=|<=|>=|[^\s\w])
    """,
    re.VERBOSE,
)
_RELATION = lazy(r"[=<>≤≥≠≈×÷*^²³√+±≡∝·⋅]")
_MIXED = r"(?<=[=+×÷][ ])\d{1,4}[ ]\d{1,2}/\d{1,2}(?![\w/]|\.\d)"
"""A mixed number in an expression: = 1 1/2."""
_POWERED = rf"(?<![\w])(?P<base>{_NUMBER}|[a-zA-Z])(?P<power>{_POWER})(?!\w)"
_ROOT = r"√\(?(?P<of>\d+(?:\.\d+)?|[a-zA-Z])\)?"
_SCIENTIFIC = r"""
    (?<![\w.]) (?P<number>\d(?:\.\d+)?)[eE](?P<sign>[+-])?(?P<power>\d{1,3}) (?![\w])
    (?P<unit>[ ](?:m/s|kg|km|m|s|J|Hz|Pa|N|W|K)(?![\w/]))?
"""
_ELEMENTS = dict(
    each.split()
    for each in (
        "H hydrogen|He helium|Li lithium|B boron|C carbon|N nitrogen|O oxygen|F fluorine|Na sodium|P phosphorus|"
        "S sulfur|"
        "Cl chlorine|K potassium|Ca calcium|Cr chromium|Fe iron|Co cobalt|Ga gallium|Kr krypton|Sr strontium|"
        "Mo molybdenum|Tc technetium|I iodine|Xe xenon|Cs cesium|Lu lutetium|Pb lead|Po polonium|Rn radon|Ra radium|"
        "Ac actinium|Th thorium|U uranium|Pu plutonium|Am americium"
    ).split("|")
)
_ISOTOPE = rf"""
    (?<![\w{_SUPERSCRIPTS}])
    (?P<mass> [⁰¹²³⁴⁵⁶⁷⁸⁹]{{3}} | [⁰¹²³⁴⁵⁶⁷⁸⁹]{{2}}(?!I|He) | [¹²³](?=H(?!\w)) )
    (?P<element>{"|".join(_ELEMENTS)}) (?!\w)
"""
_SUBSCRIPT = r"[₀-₉₊₋]{1,8}"


def _expression(match: re.Match[str]) -> str:
    text = match[0]
    if not _RELATION.search(text) and ")(" not in text and not re.search(r"\s[-−–/%]\s.*=|x", text):
        return text
    if not re.search(r"[\d=≥≤≠≈²³^√]|\)\(", text) and not re.search(r"(?<![\w])[a-z](?!\w).*[-+*/<>]", text):
        return text
    words: list[str] = []
    for token in _TOKEN.finditer(text):
        words.append(_token(token, text, words))
    return " ".join(filter(None, words))


def _token(token: re.Match[str], text: str, before: list[str]) -> str:
    kind, value = token.lastgroup, token[0]
    if kind == "number":
        return numbers.number(value)
    if kind == "fraction":
        top, bottom = value.split("/")
        if int(bottom) > 1 and int(top) % int(bottom) == 0:
            return f"{numbers.number(top)} divided by {numbers.number(bottom)}"
        return fractions.mixed(value)
    if kind == "power":
        return power(value)
    if kind == "name":
        if value == "x" and token.start() and token.end() < len(text) and text[token.start() - 1] in " 0123456789":
            follows = text[token.end() :].lstrip()
            if follows[:1].isdecimal() and before and before[-1] not in _OPERATORS.values():
                return "times"
        return GREEK_LETTERS[value] if value in GREEK_LETTERS else _name(value)
    return _operator(value, token, text, before)


def _operator(value: str, token: re.Match[str], text: str, before: list[str]) -> str:
    if value in "()":
        if value == "(" and before and before[-1] in ("F", "G", "H", "f", "g", "h"):
            return "of"
        return "times" if value == "(" and text[token.start() - 1 : token.start()] == ")" else ""
    if (
        value == "/"
        and token.start()
        and text[token.start() - 1].isdigit()
        and text[token.end() : token.end() + 1].isdigit()
    ):
        return "over"
    if value == "√":
        return "the square root of"
    if value == "∞":
        return "infinity"
    if value == "!":
        return "factorial"
    if value == "%" and (token.end() == len(text) or text[token.end()] != " " or text[token.start() - 1] != " "):
        return "percent"
    return _OPERATORS.get(value, "")


def _name(value: str) -> str:
    return value if len(value) == 1 else letters.spell(value).lower() if value.islower() else letters.spell(value)


def power(text: str) -> str:
    """Return an exponent, "²" or "^6", in words."""
    exponent = text.translate(DOWN).lstrip("^").strip("()")
    if exponent in ("2", "3"):
        return "squared" if exponent == "2" else "cubed"
    if re.fullmatch(r"[-+]?\d+(?:\.\d+)?", exponent):
        return f"to the power of {numbers.number(exponent)}"
    return f"to the power of {letters.spell(exponent) if len(exponent) <= 2 else exponent}"


def _powered(match: re.Match[str]) -> str:
    base = match["base"]
    return f"{numbers.number(base) if base[0].isdigit() else base} {power(match['power'])}"


def _scientific(match: re.Match[str]) -> str:
    exponent = ("minus " if match["sign"] == "-" else "") + numbers.number(match["power"])
    unit = (match["unit"] or "").strip()
    words = "meters per second" if unit == "m/s" else UNITS[unit][1] if unit else ""
    return f"{numbers.number(match['number'])} times ten to the power of {exponent} {words}".rstrip()


def _root(match: re.Match[str]) -> str:
    of = match["of"]
    return f"the square root of {numbers.number(of) if of[0].isdigit() else of}"


_POWER_OF_TEN = rf"""
    (?:(?P<sign>[-−])(?<![\w)\]].))?
    (?<![\w.,])(?P<number>{_NUMBER})[ ]?[x×·*][ ]?10(?:\^(?P<typed>[-−]?\d{{1,3}})|(?P<raised>⁻?[⁰¹²³⁴-⁹]{{1,3}}))
    (?:/(?P<per>m?L|l|µL|uL|ml)(?!\w))? (?![\w^]|[ ]?[-+*/=(])
"""
"""4.5 x 10^9/L."""
_PER = {"l": "liter", "ml": "milliliter", "µl": "microliter", "ul": "microliter"}


def _power_of_ten(match: re.Match[str]) -> str:
    exponent = (match["typed"] or match["raised"].translate(DOWN)).replace("−", "-")
    per = f" per {_PER[match['per'].lower()]}" if match["per"] else ""
    sign = "minus " if match["sign"] else ""
    return f"{sign}{numbers.number(match['number'])} times ten to the power of {numbers.number(exponent)}{per}"


_MARKED = r"(?<![^\W_])(?:[A-Za-zα-ω][\u0302-\u0304]|[ȳŷȲŶ])(?![^\W_]|[\u0300-\u036f])"
"""x̄, p̂."""
_MARK_NAMES = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar"}
_LESS = r"(?<![\w'.\-])(?:(?P<letter>[nx])-(?P<number>[1-9])|(?P<index>[ik])-(?P<small>[12]))(?![\w\-]|\.\d)"
"""n-1. Of other letters, "k-9" is a name."""
_FACTORIAL = r"""
    (?<![\w'./]) (?:(?P<letter>[nkm])!(?=[ ](?:[a-z]|[-+*/=<>≈]))|(?P<number>[1-9]\d?)!(?=[ ](?:is|equals|has)[ ]\d))
"""
"""n! grows, 5! is 120."""
_FUNCTIONS = {"sin": "sine", "cos": "cosine", "tan": "tangent"}
_ABSOLUTE = r"(?<![\w|)])\|(?P<value>[-−]?(?:\d{1,6}(?:\.\d{1,4})?|[a-z]))\|(?![\w|])"
"""|-3|."""


def _letter(match: re.Match[str]) -> str:
    raised = f" {power(match['power'])}" if match["power"] else ""
    return f" {GREEK_LETTERS[match['letter']]}{raised} "


def _marked(match: re.Match[str]) -> str:
    parts = unicodedata.normalize("NFD", match[0])
    return f"{parts[0]} {_MARK_NAMES[parts[1]]}"


def _isotope(match: re.Match[str]) -> str:
    return f"{_ELEMENTS[match['element']]} {numbers.cardinal(int(match['mass'].translate(DOWN)))}"


FIRST: tuple[Rule, ...] = (
    rule(
        _LESS,
        lambda match: f"{match['letter'] or match['index']} minus {match['number'] or match['small']}",
        ("n-", "x-", "i-", "k-"),
    ),
    rule(
        r"(?:(?<=[=+*(∝≈][ ])|(?<=^)(?=\w/\w[ ][=+*]))"
        r"(?P<minus>[-−])?(?P<top>[a-z]|\d{1,3}[a-z]?(?=/\d{0,3}[a-z]))/(?P<bottom>\d{0,3}[a-z])(?![\w/])",
        lambda match: f"{'minus ' if match['minus'] else ''}{match['top']} over {match['bottom']}",
        "/",
    ),
    rule(r"(?:(?<=\b[A-Za-zπ])|(?<=[)²³\d]))[ ]≈[ ](?=[-−$€£\d])", " is approximately ", "≈"),
    rule(
        r"\b(?P<name>[Ss]in|[Cc]os|[Tt]an)[ ](?=[a-z](?:[ ][-+=/*]|[²³^]|$))",
        lambda match: f"{_FUNCTIONS[match['name'].lower()]} of ",
        ("sin", "cos", "tan"),
    ),
    rule(
        r"\blim(?:it)?[ _]?\(?(?P<of>[a-z])[ ]?→[ ]?(?P<to>[-+−]?(?:\d{1,3}|[a-z]|∞))\)?[ ]",
        r"the limit as \g<of> approaches \g<to> of ",
        "→",
    ),
    rule(
        r"\b(?P<name>[Ss]in|[Cc]os|[Tt]an)(?=[ ]?(?:\d{1,3}[ ]?°|[θφαβ]))",
        lambda match: _FUNCTIONS[match["name"].lower()],
        ("sin", "cos", "tan"),
    ),
    rule(
        r"\b(?P<name>[Ss]in|[Cc]os|[Tt]an)\((?=\d{1,3}[ ]?°\))",
        lambda match: f"{_FUNCTIONS[match['name'].lower()]} of (",
        ("sin", "cos", "tan"),
    ),
    rule(_FACTORIAL, lambda match: f"{match['letter'] or match['number']} factorial", "!"),
    rule(r"(?<=[²³])(?=[a-zA-Z](?![a-zA-Z]))", " ", ("²", "³")),
    rule(r"(?<=[=+][ ][½¼¾⅓⅔])(?P<first>[a-z])(?P<second>[a-z])(?![a-z])", r" \g<first> \g<second>", tuple("½¼¾⅓⅔")),
    rule(r"(?<![\w.])ln[ ](?=[a-z](?!\w)|\d)", "natural log of ", ("ln",)),
    rule(_MARKED, _marked, (*_MARK_NAMES, *"ȳŷȲŶ")),
    rule(_ABSOLUTE, r"the absolute value of \g<value>", "|"),
    rule(_ISOTOPE, _isotope, tuple("⁰¹²³⁴⁵⁶⁷⁸⁹")),
    rule(_LETTER, _letter, _NAMED_GREEK),
    rule(_SUBSCRIPT, lambda match: match[0].translate(SUBSCRIPTS), tuple("₀₁₂₃₄₅₆₇₈₉₊₋")),
)
"""Run before all rules that look for digits."""

RULES: tuple[Rule, ...] = (
    rule(_POWER_OF_TEN, _power_of_ten, ("10^", "10⁰", *(f"10{each}" for each in _SUPERSCRIPTS))),
    rule(_MIXED, lambda match: fractions.mixed(match[0]), "digit/"),
    rule(_SCIENTIFIC, _scientific, "digit e"),
    rule(_EXPRESSION, _expression, (*"=*×·⋅÷<>≤≥≠≈±≡∝+√", "operator")),
    rule(_POWERED, _powered, ("^", *_SUPERSCRIPTS)),
    rule(_ROOT, _root, "√"),
    rule(r"(?<=\b[Tt]he[ ])the[ ](?=square[ ]root)", "", "√"),
    rule(r"(?P<power>to[ ]the[ ]power[ ]of[ ]minus[ ][a-z-]+[ ])M(?=[.,;)]|[ ][a-z]|\s*$)", r"\g<power>molar", ("M",)),
)

"""Finds formulas that are typed without LaTeX and that have functions, roots, or brackets: sqrt(x^2 + 1), sin(x)/x.

Flat expressions such as 2 + 2 = 4 and x² have rules of their own, in ``maths``.
"""

from __future__ import annotations

import re

from server.text.english.formulas import speak_formula
from server.text.english.maths import DOWN, SUBSCRIPTS, WORDS
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_FUNCTION = "arc(?:sin|cos|tan)|(?:sin|cos|tan)h?|cot|log|ln|exp|sqrt"
_PIECE = rf"""
    (?: (?:{_FUNCTION})(?=[(^_²³]) | pi(?![A-Za-z]) | \d{{1,15}}(?:\.\d{{1,15}})?(?!\d) | \.\.\.
      | (?!(?i:{WORDS})(?![A-Za-z]))[A-Za-zα-ωΔΣΩ][A-Za-zα-ω]?\d{{0,3}}(?![\dA-Za-zα-ω'])
      | -> | [-+*/^_=<>≤≥≠≈±|()²³!−×÷·∞∪∩∈] | (?<=[\w)]),(?=[ ]?[-\w(]) )
"""
_FORMULA = rf"(?<![\w.$€£/@\\])(?>{_PIECE}(?:[ ]?{_PIECE}){{2,80}})(?![\w@\\])"
_SUM = r"\([^()]*[-+*][^()]*\)"
_CERTAIN = lazy(
    rf"""
    (?<![A-Za-z])(?:{_FUNCTION})(?:\^-?\d|_\d{{1,2}}|[²³])?\((?!\)|e?s\))  # sin(x), log_2(8)
  | (?<![A-Za-z])(?:(?:sin|cos|tan)(?:\^\d|[²³])|log_\d{{1,2}})[ ]?[\dA-Za-zα-ω](?![A-Za-z])  # sin²θ, log_2 8
  | (?<![A-Za-z])[fgh]\([a-z][ ]?[-+−][ ]?[a-z\d]\)                     # f(x + h)
  | {_SUM}[ ]?/[ ]?[\w(] | [\w)][ ]?/[ ]?{_SUM} | \w\^\(                    # (a + b)/(c + d), n(n + 1)/2, e^(2x)
  | P\([^()|]{{1,12}}[|∪∩][^()|]{{1,12}}\)                                  # P(A|B)
  | \|-?[\w(][^|]{{0,18}}\|[ ]?[-+=<>≤≥]                                    # |x| < 3
  | (?<!\w)d[a-z]/d[a-z](?!\w) | \d[a-z]\^\d                                # dy/dx, 3x^2
  | [-+*][ ]?\.\.\.[ ]?[-+*] | (?<!\w)[a-z]_[a-z\d][ ]=[ ][^=]*[-+*^]       # 1 + ... + n, a_n = a_1 + d
  | (?:(?<=as[ ])|(?<=lim[ ]))[a-z][ ]?->[ ]?(?:-?\d|∞)                     # as x -> 0
    """,
    re.VERBOSE,
)
_OPERATOR = "[-+*/^_=<>≤≥≠≈±|²³×÷·]"
_EDGES = lazy(
    rf"^(?:(?:[aAI](?=[ ](?!{_OPERATOR}))|[,*/^_=<>+)])[ ]?)+"
    rf"|(?:[ ](?<!{_OPERATOR}[ ])[aAI]|[ ]?[-+*/^_=<>(,])+$"
)
"""Words and signs around a formula that do not belong to it."""


def _formula(match: re.Match[str]) -> str:
    text = match[0]
    if "||" in text or "==" in text or not _CERTAIN.search(match.string, *match.span()):  # program code
        return text
    inner = _EDGES.sub("", text)
    if inner.count("(") != inner.count(")"):
        return text
    start = text.index(inner)
    spoken = speak_formula(inner)
    if "->" in inner:
        spoken = spoken.replace("goes to", "approaches")
    return f"{text[:start]}{spoken}{text[start + len(inner) :]}"


_SUBSCRIPT_DIGITS = tuple("₀₁₂₃₄₅₆₇₈₉")

_FORMULA_NEEDS = (
    *(f"{name}(" for name in "sin cos tan sinh cosh tanh cot log ln exp sqrt f g h P".split()),
    *("/(", "/ (", ")/", ") /", "^", "|", "_", "->", "...", "/d", "²", "³", *_SUBSCRIPT_DIGITS),
)

RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.])log(?P<base>2|10)(?=\()", r"log_\g<base>", ("log2(", "log10(")),
    rule(
        r"\blog(?P<base>[₀-₉]{1,2})[ ]?(?=(?P<bracket>\()|\w)",
        lambda match: f"log_{match['base'].translate(SUBSCRIPTS)}{'' if match['bracket'] else ' '}",
        _SUBSCRIPT_DIGITS,
    ),
    rule(
        r"∫(?P<low>[₀-₉]{1,3})(?P<high>[⁰¹²³⁴-⁹]{1,3})[ ]?",
        lambda match: f"the integral from {match['low'].translate(SUBSCRIPTS)} to {match['high'].translate(DOWN)} of ",
        "∫",
    ),
    rule(_FORMULA, _formula, _FORMULA_NEEDS),
)
"""Run before rules that would take formulas for code, paths or products."""

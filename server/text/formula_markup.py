r"""Finds formulas in Markdown: $x^2$, $$x^2$$, \(x^2\) and \[x^2\], as language models write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from server.text.patterns import lazy

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

TOKEN = "formula"
"""Type of the parser's tokens for formulas."""
DOLLARS = r"\$[^\s$][^$\n]*\$|\$\$"
"""Matches in every text with a formula between dollar signs."""
_LONGEST = 2000
_LONGEST_INLINE = 500
_SPAN = lazy(
    rf"""
    \$\$ (?P<display>(?:[^$\\]|\\.){{1,{_LONGEST}}}) \$\$
  | (?<![\w\\]) \\\( (?P<round>(?:(?!\\[(\[]).){{1,{_LONGEST}}}?) \\\)
  | (?<![\w\\]) \\\[ (?P<square>(?:(?!\\[(\[]).){{1,{_LONGEST}}}?) \\\]
  | (?<![\w$\\]) \$ (?P<inline>(?=\S)(?:[^$\\\n]|\\.){{1,{_LONGEST_INLINE}}}(?<!\s)) \$
    (?!(?!(?:st|nd|rd|th|s)\b)\w|\$)
    """,
    re.DOTALL | re.VERBOSE,
)
_OPENING = lazy(
    rf"""
    (?<![\w\\])\\[(\[](?=.{{0,{_LONGEST_INLINE}}}$) | \$\$(?=.{{0,{_LONGEST_INLINE}}}$)
  | (?<![\w$\\])\$(?=\\|[-({{|]|[A-Za-z]{{1,2}}(?![A-Za-z])|\d+(?:\.\d+)?(?:[ ]?[=+*/<>^\\]|(?![kKmMbBtT])[A-Za-z]))
    [^$\n]{{0,{_LONGEST_INLINE}}}$
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMAND = lazy(r"\\[A-Za-z]{2,}")
_NOT_FORMULA = lazy(
    r"[\"`#@?;~]|\\[dwsbDWSB](?![A-Za-z])|^\^"
    r"|(?<![\\{A-Za-z])(?!(?:sin|cos|tan|log|exp|max|min|lim|det|gcd|mod)(?![A-Za-z]))[A-Za-z]{3,}"
)
"""Signs and words of prose and of program code."""
_CERTAIN = r"(?s:.*[\^_=+*<>≤≥≠≈×·±√∑∫].*)"
_SYMBOL = r"[A-Za-zα-ωΑ-Ω]\d{0,2}|[A-Za-z]'{0,2}\([^()]{1,20}\)|\d?[A-Za-z] ?[-−] ?[\dA-Za-z]{1,3}"
_IN_DOLLARS = lazy(
    rf"{_CERTAIN}|{_SYMBOL}|-?[A-Za-z]'{{0,2}}|(?s:.*[/|!%].*)|-?\d+(?:[.,]\d+)*[a-z]?|[\w ]+[-−][\w ]+"
    r"|[(\[][-\w ,.'()]{1,30}[)\]]"
)
_IN_ROUND = lazy(rf"{_CERTAIN}|{_SYMBOL}|\([-\w ]{{1,10}},[-\w ,]{{1,20}}\)")
_IN_SQUARE = lazy(_CERTAIN)
_KINDS = {"display": _IN_DOLLARS, "inline": _IN_DOLLARS, "round": _IN_ROUND, "square": _IN_SQUARE}
"""What is a formula without commands. Escaped brackets also enclose ordinary text."""
_DISPLAY_START = lazy(r"[ \t]*(?:\$\$|\\\[)[ \t]*(?:\n|$)")
_DISPLAY = lazy(
    rf"^[ \t]*(?:\$\$|\\\[)[ \t]*\n(?P<content>(?:(?!\$\$|\\\[|\n[ \t]*\n).){{1,{_LONGEST}}}?)"
    r"\n[ \t]*(?:\$\$|\\\])[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_BLANK = lazy(r"\n[^\S\n]*\n")


def one_line(text: str) -> str:
    """Return ``text`` with each formula that has lines of its own in one line, so that no line of it is markup."""
    return _DISPLAY.sub(_joined, text) if "\n" in text else text


def display_end(text: str, start: int, *, final: bool) -> int | None:
    """Return where the formula ends whose first line is at ``start``.

    0 if no formula with lines of its own begins there, None if later text decides it.
    """
    if not _DISPLAY_START.match(text, start):
        return 0
    match = _DISPLAY.match(text, start)
    if match is None:
        undecided = not final and len(text) - start <= _LONGEST and not _BLANK.search(text, start)
        return None if undecided else 0
    if match.end() == len(text) and not final:
        return None
    return match.end() if _is_formula(match["content"], "display") else 0


def is_open(text: str) -> bool:
    """Return whether ``text`` ends within a formula that later text may close."""
    return ("$" in text or "\\" in text) and _OPENING.search(_SPAN.sub("", text)) is not None


def enable(parser: MarkdownIt) -> MarkdownIt:
    """Make ``parser`` return formulas as tokens of type ``TOKEN``, and return it."""
    parser.inline.ruler.before("escape", TOKEN, _formula)
    return parser


def _formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    match = _SPAN.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    kind = str(match.lastgroup)
    content = match[kind].strip()
    if not _is_formula(content, kind):
        return False
    if not silent:
        state.push(TOKEN, "", 0).content = content
    state.pos = match.end()
    return True


def _joined(match: re.Match[str]) -> str:
    return " ".join(match[0].split()) if _is_formula(match["content"], "display") else match[0]


def _is_formula(content: str, kind: str) -> bool:
    """Return whether what is between the marks is a formula: the marks also enclose prices, brackets and code."""
    if _COMMAND.search(content):
        return True
    return (
        not _NOT_FORMULA.search(content)
        and _KINDS[kind].fullmatch(content.replace("{,}", ",").replace("\\,", " ")) is not None
    )

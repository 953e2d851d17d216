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
MAY_BE = r"\$[^\s$][^$\n]*\$|\$\$|\\[(\[]"
"""Matches in every text that has a formula."""
_SPAN = lazy(
    r"""
    \$\$ (?P<display>(?:[^$\\]|\\.){1,2000}) \$\$
  | \\\( (?P<round>(?:(?!\\[(\[]).){1,2000}?) \\\)
  | \\\[ (?P<square>(?:(?!\\[(\[]).){1,2000}?) \\\]
  | (?<![\w$\\]) \$ (?P<inline>(?=\S)(?:[^$\\\n]|\\.){1,500}(?<!\s)) \$ (?!(?!(?:st|nd|rd|th|s)\b)\w|\$)
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMAND = lazy(r"\\[A-Za-z]{2,}")
_NOT_FORMULA = lazy(
    r"[\"`#@?;~]|(?<![\\{A-Za-z])(?!(?:sin|cos|tan|log|exp|max|min|lim|det|gcd|mod)(?![A-Za-z]))[A-Za-z]{3,}"
)
"""Signs and words of prose and of program code."""
_LIKE_FORMULA = lazy(
    r"(?s:.*[\\^_=<>+*/|].*)"
    r"|-?[A-Za-z](?:'{1,2}|\d{0,2})|\d+(?:\.\d+)?[a-z]?|[A-Za-z]?[(\[][-\w ,.'()]{1,30}[)\]]"  # n, 12, 3x, (0, 1)
)
_DISPLAY = lazy(
    r"^[ \t]*(?:\$\$|\\\[)[ \t]*\n(?:(?!\$\$|\\\[).){1,2000}?\n[ \t]*(?:\$\$|\\\])[ \t]*$", re.MULTILINE | re.DOTALL
)


def one_line(text: str) -> str:
    """Return ``text`` with each formula that has lines of its own in one line, so that no line of it is markup."""
    return _DISPLAY.sub(lambda match: " ".join(match[0].split()), text) if "\n" in text else text


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
    content = match[match.lastgroup or 0].strip()
    if not _is_formula(content):
        return False
    if not silent:
        state.push(TOKEN, "", 0).content = content
    state.pos = match.end()
    return True


def _is_formula(content: str) -> bool:
    """Return whether what is between the marks is a formula: the marks also enclose prices, brackets and code."""
    if _COMMAND.search(content):
        return True
    return not _NOT_FORMULA.search(content) and _LIKE_FORMULA.fullmatch(content) is not None

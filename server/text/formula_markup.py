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
_LIKE_FORMULA = lazy(
    r"(?s:.*[\\^_=].*|(?!.*[a-z]{3}).*[<>+*/|].*)"  # a command, power, index or equation; other operators of symbols
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
    if match is None or (match["inline"] is not None and not _LIKE_FORMULA.fullmatch(match["inline"])):
        return False
    if not silent:
        state.push(TOKEN, "", 0).content = match[match.lastgroup or 0].strip()
    state.pos = match.end()
    return True

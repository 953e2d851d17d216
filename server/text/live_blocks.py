"""Finds where a block ends in text that arrives in deltas: a paragraph, a list, or markup to buffer."""

from __future__ import annotations

import re
from typing import NamedTuple

from server.text import formula_markup
from server.text.patterns import lazy

_ITEM = r"[ \t]{0,12}(?:[-+*•◦▪‣●○☐☑☒➤►–—]|\d{1,9}[.)])[ \t]"
_LIST = lazy(_ITEM)
_FIRST_ITEM = lazy(r"[ \t]{0,3}(?:[-+*•◦▪‣●○☐☑☒➤►–—]|1[.)])[ \t]")
"""A list item that ends a paragraph. A number other than 1 continues the paragraph, as in Markdown."""
_HEADING = lazy(r"[ ]{0,3}#{1,6}(?:[ \t]|$)")
_FENCE = lazy(r"[ ]{0,3}(?P<fence>`{3,}|~{3,})")
_HELD = lazy(r"[ ]{0,3}(?:>|\||<)|[^\n]*\|")
_UNDERLINE = lazy(r"[ ]{0,3}(?:=+|-{2,})[ \t]*$")
_RULE = lazy(r"[ ]{0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDECIDED = lazy(r"[ \t]*(?:[-+*•◦▪‣●○☐☑☒➤►–—#>`~=|<_\[]{0,6}[ \t]*|\d{1,9}[.)]?[ \t]?)$")
"""The start of a line whose kind is not known yet."""
_SSML = lazy(r"\s*<(?:\?xml|speak)")
_BLANK = lazy(r"\n[^\S\n]*\n")

PLAIN, ITEMS, HELD = "plain", "items", "held"


class Begun(NamedTuple):
    """The first block of an incomplete text.

    kind: PLAIN (prose), ITEMS (a list) or HELD (buffered until complete). end: index of its end; None while it
    continues. limit: index up to which the kind of every line is known; for ITEMS, the end of the last complete item.
    """

    kind: str
    end: int | None
    limit: int


def begun(text: str, *, final: bool, inside: bool, markup: bool) -> Begun | None:
    """Return the first block of ``text``, or None if its kind is not known yet.

    text: starts with a line that is not blank. inside: it continues a paragraph. markup: Markdown is enabled.
    """
    blank = _BLANK.search(text)
    end = blank.start() if blank else len(text) if final else None
    if not markup:
        return Begun(PLAIN, end, len(text) if end is None else end)
    if _SSML.match(text) and not inside:
        return Begun(HELD, len(text) if final else None, 0)
    first, newline, _ = text.partition("\n")
    if not inside:
        if not newline and not final and _UNDECIDED.match(first):
            return None
        if _HEADING.match(first) or _RULE.match(first):
            return Begun(HELD, len(first) if newline or final else None, 0)
        if fence := _FENCE.match(first):
            return Begun(HELD, _after_fence(text, fence["fence"], final=final), 0)
        if formula_markup.display_end(text, 0, final=final) is None:
            return Begun(HELD, None, 0)
        if _LIST.match(first):
            return Begun(ITEMS, end, _last_item(text))
        if _HELD.match(first):
            return Begun(HELD, end, 0)
    return _plain(text, end, final=final)


def _plain(text: str, end: int | None, *, final: bool) -> Begun:
    """Return a paragraph. It ends before a line that starts another kind of block."""
    stop = len(text) if end is None else end
    start = text.find("\n", 0, stop) + 1
    formula = formula_markup.display_end(text, 0, final=final)
    start = text.find("\n", formula, stop) + 1 if formula else start
    while start:
        after = text.find("\n", start, stop)
        line = text[start : stop if after < 0 else after]
        complete = after >= 0 or final or end is not None
        formula = formula_markup.display_end(text, start, final=final)
        if formula is None:
            return Begun(PLAIN, None, start - 1)
        if formula:
            start = text.find("\n", formula, stop) + 1
            continue
        if not complete and _UNDECIDED.match(line):
            return Begun(PLAIN, None, start - 1)
        if _UNDERLINE.match(line):
            return Begun(PLAIN, start + len(line), start - 1)
        if any(pattern.match(line) for pattern in (_HEADING, _FENCE, _FIRST_ITEM, _RULE)) or line.lstrip().startswith(
            ">"
        ):
            return Begun(PLAIN, start - 1, start - 1)
        start = after + 1
    return Begun(PLAIN, end, stop)


def _after_fence(text: str, fence: str, *, final: bool) -> int | None:
    closing = re.compile(
        rf"\n[ ]{{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*(?=\n|$)"
        if final
        else rf"\n[ ]{{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*(?=\n)"
    )
    match = closing.search(text)
    return match.end() if match else len(text) if final else None


def _last_item(text: str) -> int:
    """Return the index of the newline before the last item. All items before it are complete."""
    last = text.rfind("\n")
    while last > 0:
        if _LIST.match(text, last + 1) and not text[last + 1 : last + 16].startswith((" ", "\t")):
            return last
        last = text.rfind("\n", 0, last)
    return 0

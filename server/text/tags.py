"""Removes HTML tags. Some become line or paragraph breaks; text that only looks like a tag is kept."""

from __future__ import annotations

import html
import re

from server.text import marks, ssml
from server.text.patterns import lazy

KNOWN = frozenset(
    """
    a abbr acronym address article aside audio b base bdi bdo big blockquote body br break button canvas caption center
    cite code col colgroup data dd del details dfn dialog div dl dt em embed emphasis fieldset figcaption figure font
    footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label legend li link main map mark meta
    nav noscript object ol optgroup option p param phoneme picture pre prosody q s samp say-as script section select
    small source span speak strike strong style sub summary sup svg table tbody td template textarea tfoot th thead time
    title tr track tt u ul var video voice wbr
    """.split()
)
"""Names of the tags of HTML and SSML."""
_PARAGRAPH = frozenset(
    "p div h1 h2 h3 h4 h5 h6 section article header footer table ul ol dl blockquote pre hr body main figure "
    "form speak".split()
)
_LINE = frozenset("br li tr dt dd option".split())
_TAG = lazy(
    r"""
    <(?P<close>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]{0,40})(?P<attributes>(?:\s[^<>]{0,2000})?)/?>
  | <!--(?:(?!<!--).){0,5000}?--> | <[!?][^<>]{0,500}>
    """,
    re.DOTALL | re.VERBOSE,
)
_CODE_ELEMENT = lazy(r"<code>(?P<code>[^<`]{1,1000})</code>", re.IGNORECASE)
_CODE_SPAN = lazy(r"((?<!`)`[^`\n]{1,1000}`(?!`))")
_ATTRIBUTES = lazy(
    r"\s*(?:[A-Za-z_:@][\w:.@-]{0,60}\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+)\s*"
    r"|(?:disabled|checked|hidden|selected|required|controls|autoplay|open|async|defer|readonly|multiple)\s*)*/?\s*"
)


def strip(text: str) -> str:
    """Return ``text`` without its tags, with entities decoded. Code keeps its tags, as code of Markdown."""
    text = _CODE_ELEMENT.sub(lambda match: f"`{match['code']}`", text)
    pieces = _CODE_SPAN.split(text)
    pieces[::2] = [_without_tags(piece) for piece in pieces[::2]]
    return html.unescape("".join(pieces))


def _without_tags(text: str) -> str:
    return _TAG.sub(lambda match: spoken(match[0], text[match.start() - 1 : match.start()]), text)


def spoken(tag: str, before: str) -> str:
    """Return the replacement of ``tag``: nothing, a break, the mark of a pause, or the text itself if it is not a tag.

    before: the character before it. ``List<T>`` and ``a <b and c> d`` have no tags.
    """
    match = _TAG.fullmatch(tag)
    if match is None or match["name"] is None:
        return ""
    name = match["name"].lower()
    if not _ATTRIBUTES.fullmatch(match["attributes"]) or (
        name not in KNOWN and before.isalnum() and not match["close"]
    ):
        return tag
    if name == "break":
        attributes = dict(re.findall(r"(time|strength)\s*=\s*[\"']?([^\"'\s/>]+)", match["attributes"]))
        seconds = ssml.break_seconds(attributes.get("time"), attributes.get("strength"))
        return f" {marks.pause(seconds)} " if seconds else " "
    if name in _PARAGRAPH:
        return "\n\n"
    if name in _LINE:
        return "\n"
    return " " if name in ("td", "th", "img") else ""

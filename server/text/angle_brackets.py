"""Angle brackets other than HTML tags: Slack mentions and links, and placeholders such as <your-key>."""

from __future__ import annotations

import re

from server.text.patterns import lazy
from server.text.sound_names import SOUNDS
from server.text.tags import KNOWN

_SLACK = lazy(
    r"""
    <(?: [@\#](?P<id>[A-Z][A-Z0-9]{2,14})(?:\|(?P<name>[^<>|\n]{1,80}))?
      | !(?P<group>here|channel|everyone)(?:\|[^<>\n]{0,40})?
      | !subteam\^\w{1,20}\|@?(?P<team>[^<>|\n]{1,80})
      | (?:https?://|mailto:)[^\s<>|]{1,1000}\|(?P<link>[^<>|\n]{1,300})
    )>
    """,
    re.VERBOSE,
)
"""<@U123>, <#C123|general>, <!here>, <https://x.com|the docs>."""
_PLACEHOLDER = lazy(r"(?<![\w<])<(?P<name>[A-Za-z][A-Za-z0-9]{1,30}(?:[-_ ][A-Za-z0-9]{1,30}){0,6})>(?!>)(?!\w)")
_ALSO_PLACEHOLDERS = frozenset("source title time address label data input link object param".split())
"""Tags of HTML that are never left open without attributes."""
_CLOSING = lazy(r"</([A-Za-z][\w\-]{0,30})")
_TAG_WITH_UNDERSCORE = lazy(r"</?(?P<name>[A-Za-z][\w\-]{0,30})>")
_INDENT = 12
"""Maximum spaces before a tag that begins a line."""
_JOINS = lazy(r"[-_ ]")
_NOT_IN_NAME = frozenset(
    "and or but class typename disabled hidden open required checked async defer controls muted loop".split()
)
"""Words in comparisons and in code, and HTML attributes."""
_SOUNDS = SOUNDS | frozenset("pause silence happy sad angry sing".split())
"""Sound tags of other speech models."""


def in_words(text: str) -> str:
    """Return ``text`` with Slack's markup and placeholders as plain text."""
    text = _SLACK.sub(_slack, text)
    closed = frozenset(_CLOSING.findall(text))
    if any("_" in name for name in closed):  # HTML has no such names, so Markdown would keep the tags
        text = _TAG_WITH_UNDERSCORE.sub(lambda match: " " if match["name"] in closed else match[0], text)
    return _PLACEHOLDER.sub(lambda match: _placeholder(match, closed), text)


def _slack(match: re.Match[str]) -> str:
    if match["link"]:
        return match["link"]
    name = match["name"] or match["group"] or match["team"] or match["id"]
    return f"#{name}" if match[0].startswith("<#") else f"@{name}"


def _placeholder(match: re.Match[str], closed: frozenset[str]) -> str:
    """Return the words of a placeholder. A tag, and a single word that begins a line as a tag does, are unchanged.

    closed: names of the tags that the text closes.
    """
    name = match["name"]
    lower = name.lower()
    words = _JOINS.split(name)
    if name in closed or lower in _SOUNDS or _NOT_IN_NAME.intersection(words) or max(map(len, words)) < 2:
        return match[0]
    before = match.string[max(0, match.start() - _INDENT) : match.start()]
    begins_line = not before.rpartition("\n")[2].strip() and not name.isupper()
    if len(words) == 1 and (begins_line or (lower in KNOWN and lower not in _ALSO_PLACEHOLDERS)):
        return match[0]
    return name if len(words[-1]) < 2 else " ".join(words)  # <Ctrl-C> is a key combination

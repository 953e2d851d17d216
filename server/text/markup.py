"""Markdown and HTML to plain text: empty lines between paragraphs, full stops after list items and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from server.text import angle_brackets, formula_markup, marks, ssml, tags
from server.text.patterns import lazy

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MARKUP = lazy(
    rf"[*_`~\[\]<>#|&\\]|{formula_markup.DOLLARS}"
    r"|^[ \t]{0,12}(?:[-+•◦▪·‣●○☐☑☒–—]|\d{1,9}[.)])[ \t]|^[=-]{2,}[ \t]*$",
    re.MULTILINE,
)
_BULLET = lazy(r"^([ \t]{0,12})[•◦▪·‣●○☐☑☒➤►–—][ \t]+", re.MULTILINE)
_COMPARISON = lazy(r"^>(?=[=\d$€£])", re.MULTILINE)
"""A ">" at the start of a line that compares and does not quote: ">90%"."""
_TASK = lazy(r"^\[[ xX]\]\s+")
_PRODUCT = lazy(r"(?<=\d)\*(?=\d)|(?<![^\s(])[a-zA-Z]\*[a-zA-Z](?![^\s).,=+*-])")
_SHARE = lazy(r"(?<![\w\\])\\\\(?=[\w.\-]+\\\w)")
"""The two backslashes of a network path, \\\\server\\share. The parser would take the first one for an escape."""
_STAR = "\ue010"
"""Replaces an asterisk that multiplies, so that the parser does not take it for emphasis."""
_RUN = lazy(r"([*_~\[\]<>`|#&!(\\=+-])\1{15,}")
"""A long run of one mark. It is decoration, or an attack on the parser."""
_HIGHLIGHT = lazy(r"(?<![\w=!<>])==(?=[^\s=])([^\n=]{1,300})(?<=\S)==(?![\w=])")
"""Highlighted text in some editors: ==text==."""
_SUBSCRIPT = lazy(r"(?<=[A-Za-z)\]])~(\d{1,3}|[a-z])~(?!~)")
"""A subscript in some editors: H~2~O."""
_CITATION = lazy(
    r"(?<=[.,;!?\"])(?:\[\d{1,3}\])+|【[^】\n]{1,40}】"
    r"|(?<=[a-z])(?<!\band)(?<!\bin)(?<!\bsee)(?<!\bby)(?<!\bfrom)"
    r"(?:[ ](?:\[\d{1,3}\])+|(?:\[\d{1,3}\]){2,})(?=[.,;:]|[ ]?$)"
)
_SCRIPT = lazy(r"<(script|style)\b[^>]{0,500}>.*?(?:</\1\s*>|$)", re.IGNORECASE | re.DOTALL)
_LABEL = lazy(r"^( {0,3})\[(?=[^\]\[\n^]{1,80}\]:[^\S\n]+(?!\S*[./#<:]\S))", re.MULTILINE)
"""The name of a speaker in brackets, "[Ann]: Hello", which Markdown would drop as the target of a link."""
_BLANK = lazy(r"\n[^\S\n]*\n\s*")
_ENDED = lazy(r"[.!?:;,…][\"')\]]*\s*$")
_TERMINAL = lazy(r"[.!?:;,—-][\"')\]]*$")
_OUTLINE_ITEM = lazy(r"(?:[a-zA-Z]|[ivxIVX]{1,5})[.)]\s")
"""An item whose mark is a letter or a Roman numeral, as those before it tell."""
_SENTENCE_END = lazy(r"(?:[!?]|\b[ap]\.m\.|(?<!approx)(?<!essrs)(?<!incl)(?<!dept)(?<=[a-z]{4})\.)[\"')\]]*$")
"""The end of a line that is a sentence, and no abbreviation."""
WRAPPED_FROM = 55
"""Minimum length of a line without an end mark that the next line continues. A shorter one is a sentence."""
_STARTS_ITEM = lazy(r"(?:-\w|[\"'(]?[A-Z0-9]|(?:[a-zA-Z]|\d{1,2}|[ivx]{1,4})[.)](?:\s|$)|[-+*•]\s)")


def to_text(text: str, *, line_before: int = 0) -> str:
    """Return ``text`` without markup. Marks enclose code and formulas. A ``<break>`` becomes the mark of a pause.

    line_before: characters before the text in its first line, where the text continues another one.
    """
    text = _HIGHLIGHT.sub(r"\1", ssml.bracket_pauses(text))
    if not _MARKUP.search(text):
        return paragraphs(text, line_before=line_before)
    if "<" in text:
        text = angle_brackets.in_words(_SCRIPT.sub("", text))
    text = _BULLET.sub(r"\1- ", formula_markup.one_line(text))
    if ">" in text:
        text = _COMPARISON.sub(r"\\\g<0>", text)
    if "]:" in text:
        text = _LABEL.sub(r"\1\\[", text)
    text = _RUN.sub(r"\1", text)
    if "[" in text or "【" in text:
        text = _CITATION.sub("", text)
    if "\\" in text:
        text = _SHARE.sub(r"\\\\\\\\", text)
    if "~" in text:
        text = _SUBSCRIPT.sub(r"\1", text)
    if "*" in text:
        text = _PRODUCT.sub(lambda match: match[0].replace("*", _STAR), text)
    blocks = _blocks(text, 0, line_before)
    return "\n\n".join(filter(None, blocks)).replace(_STAR, "*")


def paragraphs(text: str, *, line_before: int = 0) -> str:
    """Return a text without markup with each paragraph in one line and one empty line between two."""
    first, *others = _BLANK.split(text)
    return "\n\n".join(filter(None, (join_lines(first, line_before=line_before), *map(join_lines, others))))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # imported here: slow, and plain prose does not need it

    # Indented text is more often prose than code.
    parser = MarkdownIt("commonmark", {"maxNesting": 12}).enable(["table", "strikethrough"]).disable("code")
    return formula_markup.enable(parser)


def _blocks(text: str, depth: int, line_before: int = 0) -> Iterator[str]:
    """Yield the paragraphs. A list is one paragraph, and its items are sentences."""
    items: list[str] = []
    item: list[str] | None = None
    level = 0
    row: list[str] | None = None
    numbers: list[int | None] = []
    heading = False
    for token in _parser().parse(text):
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            if item:
                items.append(_item(item))
                item = []
            numbers.append(int(token.attrGet("start") or 1) if kind[0] == "o" else None)
            level += 1
        elif kind in ("bullet_list_close", "ordered_list_close"):
            level -= 1
            numbers.pop()
            if not level:
                yield f"{marks.SENTENCE_END} ".join(items)
                items, item = [], None
        elif kind == "list_item_open":
            number = numbers[-1]
            item = [] if number is None else [f"{number}."]
            if number is not None:
                numbers[-1] = number + 1
        elif kind == "list_item_close":
            if item:
                items.append(_item(item))
            item = None
        elif kind == "heading_open":
            heading = True
        elif kind == "heading_close":
            heading = False
        elif kind == "tr_open":
            row = []
        elif kind == "tr_close":
            yield ended(", ".join(filter(None, row or [])))
            row = None
        else:
            for paragraph in _content(token, depth, line_before):
                line_before = 0
                if row is not None:
                    row.append(paragraph.rstrip("."))
                elif item is not None:
                    item.append(_TASK.sub("", paragraph))
                elif level:
                    items.append(ended(paragraph))
                else:
                    yield ended(paragraph) if heading else paragraph


def _item(parts: list[str]) -> str:
    return ended(" ".join(filter(None, parts)))


def _content(token: Token, depth: int, line_before: int) -> Iterator[str]:
    """Yield the paragraphs of a token that has text."""
    if token.type == "inline":
        first, *others = _BLANK.split(_inline(token.children or []))
        yield join_lines(first, line_before=line_before)
        yield from map(join_lines, others)
    elif token.type == "fence":
        yield f"{marks.CODE_START}{token.content.strip()}{marks.CODE_END}"
    elif token.type == "html_block":
        inner = tags.strip(token.content)
        if depth < 2 and inner.strip():
            yield from _blocks(inner, depth + 1)


def _inline(children: list[Token]) -> str:
    words: list[str] = []
    for token in children:
        if token.type == "text":
            words.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            words.append("\n")
        elif token.type == "code_inline":
            words.append(f"{marks.CODE_START}{token.content}{marks.CODE_END}")
        elif token.type == formula_markup.TOKEN:
            words.append(f"{marks.FORMULA_START}{token.content}{marks.FORMULA_END}")
        elif token.type == "image":
            words.append(_inline(token.children or []))
        elif token.type == "html_inline":
            words.append(tags.spoken(token.content, words[-1][-1:] if words else ""))
    return re.sub(r"\[?\^\w{1,10}\]?(?=\W|$)(?<=[\]\w])", _footnote, "".join(words))


def _footnote(match: re.Match[str]) -> str:
    return "" if match[0].startswith("[^") else match[0]


def ended(text: str) -> str:
    """Return ``text`` with a full stop at its end, if it has no end mark."""
    return text if not text or _ENDED.search(text) else f"{text}."


def join_lines(paragraph: str, *, line_before: int = 0) -> str:
    """Return a paragraph in one line. A short line without an end mark is a sentence if the next begins like one.

    line_before: characters before the paragraph in its first line.
    """
    lines = [line for line in (" ".join(line.split()) for line in paragraph.split("\n")) if line]
    if len(lines) < 2:
        return "".join(lines)
    joined = []
    for index, (line, following) in enumerate(pairwise(lines)):
        if re.search(r"[a-z]-$", line) and re.match(r"[a-z]", following):
            joined.append(line[:-1])
            continue
        wrapped = len(line) + (0 if index else line_before) >= WRAPPED_FROM
        ends = not wrapped and _STARTS_ITEM.match(following) is not None
        mark = "" if _OUTLINE_ITEM.match(following) else marks.SENTENCE_END
        if ends and not _TERMINAL.search(line):
            joined.append(f"{line}.{mark} ")
        else:
            joined.append(f"{line}{mark} " if ends and _SENTENCE_END.search(line) else f"{line} ")
    return "".join([*joined, lines[-1]])

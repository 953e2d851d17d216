"""A subset of SSML: breaks, say-as, sub, phoneme, paragraphs; other tags are dropped, their text is kept."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping

from server.text import marks
from server.text.patterns import lazy
from server.text.sound_names import MANNERS, SOUNDS

SayAs = Callable[[str, str, str], str]
"""Speaks a text as the given ``interpret-as`` and ``format``."""

_SPEAK = lazy(r"^\s*(?:<\?xml[^>]{0,200}\?>)?\s*<speak[\s>]")
_ENTITIES = frozenset("amp lt gt quot apos".split())
"""The only named entities of XML."""
_NOT_XML = lazy(r"&(?:([A-Za-z]\w{1,30});|(?!#\w{1,8};))|<(?![A-Za-z/!?])")
"""An entity with a name, a bare ``&`` or a bare ``<``."""
_ELEMENT = lazy(
    r"(?P<code>`{1,9})(?!`)(?:(?!\n\s*\n)[^`]){0,5000}(?P=code)"
    r"|<(?P<name>sub|say-as|phoneme)(?P<attributes>\s[^<>]{0,500})>(?P<inner>[^<>]{0,1000})</(?P=name)\s*>",
    re.IGNORECASE,
)
"""Code, or an element without others in it."""
_OPENING = lazy(r"<(?:sub|say-as|phoneme)\s", re.IGNORECASE)
_CLOSING = lazy(r"</(?:sub|say-as|phoneme)\s*>", re.IGNORECASE)
_ATTRIBUTE = lazy(r"([\w-]{1,40})\s*=\s*([\"'])(.*?)\2")
_UNCLOSED = lazy(r"<(br(?:eak)?(?:\s[^<>]{0,200})?)(?<!/)>(?!\s{0,9}</br)")
_TIME = lazy(r"^\s*\+?(\d{1,7}(?:\.\d{1,6})?|\.\d{1,6})\s*(ms|s)\s*$", re.IGNORECASE)
_STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.25, "medium": 0.5, "strong": 0.75, "x-strong": 1.0}
_DEFAULT_BREAK = "medium"
_DROPPED = frozenset("desc metadata meta lexicon lookup".split())
_REPLACED = frozenset("sub phoneme say-as".split())
_PARAGRAPHS = frozenset("p paragraph".split())
_SENTENCES = frozenset("s sentence".split())
_ENDS = ".!?:;,"
_BRACKET_PAUSE = lazy(
    r"\[\s*(?:pause|break)(?:[ :=]+(?P<time>\d{1,4}(?:\.\d{1,3})?|\.\d{1,3})\s*(?P<unit>ms|s|sec|seconds?)?)?\s*\]"
    r"(?P<mark>[.,;:!?](?=\s|$))?",
    re.I,
)

_BRACKET_WORDS = lazy(r"(?<!\w)\[\s*(?P<words>[a-z]{2,14}(?:\s[a-z]{2,14}){0,2})\s*\](?![(\[:])", re.I)


def is_document(text: str) -> bool:
    """Return whether ``text`` begins with ``<speak>``."""
    return _SPEAK.match(text) is not None


def elements(text: str, say_as: SayAs) -> str:
    """Return ``text``, which is no document, with its ``sub``, ``say-as`` and ``phoneme`` elements as they are spoken.

    Those between backticks, which are code in Markdown, are unchanged.
    """

    def spoken(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        attributes = {name.lower(): html.unescape(value) for name, _, value in _ATTRIBUTE.findall(match["attributes"])}
        return _spoken(match["name"].lower(), html.unescape(match["inner"]), attributes, say_as)

    return _ELEMENT.sub(spoken, text) if "</" in text else text


def is_open(text: str) -> bool:
    """Return whether ``text`` ends within an element that ``elements`` reads."""
    return len(_OPENING.findall(text)) > len(_CLOSING.findall(text))


def break_seconds(time: str | None, strength: str | None) -> float:
    """Return the length of a ``break`` in seconds. An invalid ``time`` or ``strength`` counts as missing."""
    match = _TIME.match(time or "")
    if match:
        return float(match[1]) / (1000 if match[2].lower() == "ms" else 1)
    return _STRENGTHS.get((strength or _DEFAULT_BREAK).strip(), _STRENGTHS[_DEFAULT_BREAK])


def bracket_pauses(text: str) -> str:
    """Return ``text`` with ``[pause 0.5s]`` as marks of pauses, and without sounds such as ``[laughs]``."""
    return _BRACKET_WORDS.sub(_without_sound, _BRACKET_PAUSE.sub(_bracket_pause, text)) if "[" in text else text


def _bracket_pause(match: re.Match[str]) -> str:
    """Return the mark of a pause. A punctuation mark after it belongs to the words before it."""
    seconds = _STRENGTHS[_DEFAULT_BREAK]
    if match["time"] is not None:
        seconds = float(match["time"]) / (1000 if (match["unit"] or "s").lower() == "ms" else 1)
    return f"{match['mark'] or ''} {marks.pause(seconds)} "


def _without_sound(match: re.Match[str]) -> str:
    words = [word for word in match["words"].lower().split() if word not in MANNERS]
    throat = words in (["clear", "throat"], ["clears", "throat"])
    return "" if throat or (len(words) == 1 and words[0] in SOUNDS) else match[0]


def read(text: str, say_as: SayAs) -> str | None:
    """Return the text of an SSML document with marks of pauses; None if it is not well-formed XML.

    What people write as in HTML is well-formed here: ``&``, ``<``, named entities, and breaks that are not closed.
    """
    from xml.parsers.expat import ExpatError, ParserCreate  # imported here because only SSML needs the library

    document = text.strip()
    if "<![CDATA[" not in document:
        document = _UNCLOSED.sub(r"<\1/>", _NOT_XML.sub(_escaped, document))
    if "<!DOCTYPE" in document or "<!ENTITY" in document:
        return None
    reader = _Reader(say_as)
    parser = ParserCreate("utf-8")
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    try:
        parser.Parse(document.encode("utf-8", "surrogatepass"), True)
    except (ExpatError, UnicodeEncodeError):
        return None
    return reader.text()


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[1] in _ENTITIES else html.escape(html.unescape(match[0]))


class _Reader:
    """Collects the text of a document. It keeps no tree, so depth costs nothing."""

    def __init__(self, say_as: SayAs) -> None:
        self._say_as = say_as
        self._pieces: list[str] = []
        self._inside: list[tuple[dict[str, str], int]] = []
        self._dropped = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if name == "break" and not self._dropped:
            seconds = break_seconds(attributes.get("time"), attributes.get("strength"))
            self._pieces.append(f" {marks.pause(seconds)} " if seconds else " ")
        elif name == "br":
            self._pieces.append("\n")
        elif name in _DROPPED:
            self._dropped += 1
        elif name in _REPLACED:
            self._inside.append((attributes, len(self._pieces)))
        elif name in _PARAGRAPHS:
            self._pieces.append("\n\n")

    def end(self, name: str) -> None:
        name = name.rpartition(":")[2]
        if name in _DROPPED:
            self._dropped -= 1
        elif name in _REPLACED:
            attributes, start = self._inside.pop()
            inner = "".join(self._pieces[start:])
            self._pieces[start:] = [_spoken(name, inner, attributes, self._say_as)]
        elif name in _SENTENCES or name in _PARAGRAPHS:
            self._pieces.append((" " if self._ended() else ". ") if name in _SENTENCES else "\n\n")

    def data(self, text: str) -> None:
        if not self._dropped:
            self._pieces.append(text)

    def text(self) -> str:
        return "".join(self._pieces)

    def _ended(self) -> bool:
        last = self._pieces[-1].rstrip() if self._pieces else ""
        return not last or last[-1] in _ENDS


def _spoken(name: str, inner: str, attributes: Mapping[str, str], say_as: SayAs) -> str:
    """Return what is spoken for an element in ``_REPLACED``."""
    if name in ("sub", "phoneme"):
        return attributes.get("alias") or inner
    kind = attributes.get("interpret-as", "").strip().lower()
    return say_as(inner.strip(), kind, attributes.get("format", "").strip().lower())

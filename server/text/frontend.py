"""The text front end: turns text as people type it into the words to speak."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from server.text import emoji, marks, markup, quotes, ssml, unicode
from server.text.english import formulas
from server.text.english import normalize as english
from server.text.english.say_as import say_as
from server.text.patterns import compile_all, lazy
from server.text.pronunciations import Pronunciations

STEPS = ("unicode", "markup", "emoji", "normalize", "quotes")
"""Every step, in the order they run. "normalize" rewrites numbers, abbreviations and symbols as words, "quotes" removes
quotation marks."""
_ENGLISH = frozenset(("english", "en", "en-us", "en-gb"))
_SPACE = lazy(r"[^\S\n]+")
_MARKS = lazy(f"[{marks.CODE_START}{marks.CODE_END}{marks.FORMULA_START}{marks.FORMULA_END}{marks.SENTENCE_END}]")


class Pause(NamedTuple):
    """A pause of ``seconds`` before the character at ``position`` of the spoken text."""

    position: int
    seconds: float


class Spoken(NamedTuple):
    """The text to speak.

    text: paragraphs are separated by one empty line. changed: the steps that changed the text, and "pronunciations".
    """

    text: str
    changed: tuple[str, ...] = ()
    pauses: tuple[Pause, ...] = ()


class Frontend:
    """The front end for one language and one selection of steps. It keeps no state between texts."""

    def __init__(
        self,
        language: str,
        steps: Collection[str] = STEPS,
        pronunciations: Mapping[str, str] | None = None,
        *,
        name_emoji: bool = False,
    ) -> None:
        """Args as for ``spoken``. Raises ValueError for an unknown step."""
        if unknown := set(steps) - set(STEPS):
            raise ValueError(f"steps must be among {', '.join(STEPS)}, got {', '.join(sorted(unknown))}")
        self._steps = frozenset(steps)
        self._english = language.lower() in _ENGLISH
        self._name_emoji = name_emoji
        self._words = _pronunciations(tuple(pronunciations.items())) if pronunciations else None
        self.normalizes = "normalize" in self._steps and self._english
        self.has_markup = "markup" in self._steps

    def spoken(self, text: str) -> Spoken:
        """Return the text to speak for ``text``."""
        changed: list[str] = []
        current = self.prepared(text, changed)
        if self.normalizes:
            current = _step("normalize", changed, current, english.normalize(current))
        return self.finished(current, tuple(changed))

    def prepared(self, text: str, changed: list[str], *, line_before: int = 0) -> str:
        """Return ``text`` after the steps before "normalize", with marks. English formulas are already in words.

        changed: receives the names of the steps that changed it.
        line_before: as for ``markup.to_text``.
        """
        current = marks.RESERVED.sub("", text)
        if "unicode" in self._steps:
            current = _step("unicode", changed, current, unicode.clean(current))
        if self.has_markup:
            has_entities = "&" in current
            current = _step("markup", changed, current, self._without_markup(current, line_before))
            if has_entities:  # they may stand for any character
                current = marks.WORD.sub("", current)
                current = unicode.clean(current) if "unicode" in self._steps else current
        if self.normalizes:  # before the emoji step, which would take 8\ for an emoticon, and drop hearts and stars
            current = _step("normalize", changed, current, formulas.marked_in_words(current))
            current = _step("normalize", changed, current, emoji.in_english(current))
        if "emoji" in self._steps:
            after = emoji.name(current) if self._name_emoji else emoji.drop(current)
            current = _step("emoji", changed, current, after)
        if self._words:
            current = _step("pronunciations", changed, current, self._words.mark(current))
        return current

    def finished(self, text: str, changed: tuple[str, ...] = ()) -> Spoken:
        """Return the text to speak, without quotation marks if that is a step.

        Marks of words become respellings, marks of pauses become ``Pause`` objects.
        """
        text = _MARKS.sub("", text)
        if "quotes" in self._steps:
            without = quotes.drop(text)
            changed, text = (*changed, "quotes") if without != text else changed, without
        return _with_pauses(self._words.restore(text) if self._words else text, changed)

    def _without_markup(self, text: str, line_before: int) -> str:
        speak = say_as if self._english else _as_written
        read = ssml.read(text, speak) if ssml.is_document(text) else None
        if read is not None:
            return markup.paragraphs(ssml.bracket_pauses(read))
        return markup.to_text(ssml.elements(text, speak), line_before=line_before)


def spoken(
    text: str,
    language: str,
    steps: Collection[str] = STEPS,
    pronunciations: Mapping[str, str] | None = None,
    *,
    name_emoji: bool = False,
) -> Spoken:
    """Return the text to speak for ``text``.

    Args:
        text: as typed, up to any length; the cost is linear.
        language: name or code of the language, in any case. Only English is normalized into words.
        steps: any of ``STEPS``.
        pronunciations: word -> respelling; whole words, in any case unless the entry has capitals.
        name_emoji: the "emoji" step names emoji in English instead of dropping them.

    Raises:
        ValueError: for an unknown step.
    """
    return Frontend(language, steps, pronunciations, name_emoji=name_emoji).spoken(text)


def _as_written(text: str, _kind: str, _form: str) -> str:
    return text


def _step(name: str, changed: list[str], before: str, after: str) -> str:
    if before != after and name not in changed:
        changed.append(name)
    return after


@lru_cache(maxsize=64)
def _pronunciations(items: tuple[tuple[str, str], ...]) -> Pronunciations:
    """Return pronunciations that match words as they were given, and as the step "unicode" writes their letters.

    If two words are the same one in these letters, the later one takes precedence.
    """
    entries: dict[str, str] = {}
    for word, respelling in items:
        entries[unicode.plain_letters(word)] = entries[word] = respelling
    return Pronunciations(entries)


def _with_pauses(text: str, changed: tuple[str, ...]) -> Spoken:
    """Replace the marks of pauses by ``Pause`` objects with their positions."""
    if not marks.PAUSE.search(text):
        return Spoken(text, changed)
    pieces: list[str] = []
    pauses: list[Pause] = []
    length = 0
    start = 0
    for match in [*marks.PAUSE.finditer(text), None]:
        piece = text[start : match.start() if match else len(text)]
        piece = _SPACE.sub(" ", piece)
        after_space = pieces[-1][-1].isspace() if pieces else bool(pauses) or not piece.strip()
        if after_space and piece[:1] == " ":  # live text keeps the space before its first word
            piece = piece[1:]
        if piece:
            pieces.append(piece)
            length += len(piece)
        if match:
            pauses.append(Pause(length, marks.pause_seconds(match[0])))
            start = match.end()
    whole = "".join(pieces).rstrip()
    return Spoken(whole, changed, tuple(Pause(min(pause.position, len(whole)), pause.seconds) for pause in pauses))


def warm_up() -> None:
    """Compile every rule and parser, so that the first request does not wait for it."""
    compile_all()
    spoken("**Hi** <b>there</b>, it is 5 p.m.", "english")

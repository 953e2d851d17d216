"""The front end for text that arrives in deltas."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from server.text.english import normalize as english
from server.text.english import tidy
from server.text.frontend import STEPS, Frontend, Spoken
from server.text.live_blocks import ITEMS, PLAIN, Begun, begun
from server.text.patterns import lazy

_AHEAD = 3
"""Plain words that have to follow a place before it is safe: no rule looks back across more of them."""
_WORD = r"[^\W\d_A-Z](?:[^\W\d_A-Z]|'(?=\w))*"
_PLACE = lazy(rf"(?<=[^\W\d_])(?<!\d0s),?(?=(?:[ \n]{_WORD},?){{{_AHEAD}}}[ \n])")
_WORD_END = lazy(r"(?<=\S)(?=[ ]+[^\s])|(?<=[。！？，、])(?=[^\s」』”’）])")
"""A safe place where nothing is put into words."""
_OPEN = lazy(r"(?<![\s*])\*|\*(?![\s*])|(?<!\w)_|_(?!\w)|~~|[`\[|]|<(?=[A-Za-z/!])")
"""What is left of markup that may still be closed."""
_OPEN_QUOTE = lazy(r"(?<!\w)'(?=\w)")
_CLOSED_QUOTE = lazy(r"(?<=[\w.,!?])'(?!\w)")
_OPEN_CALL = lazy(r"\w[(\[][^)\]\n]*$")
_SENTENCE_END = lazy(r"[.!?…]+[\"')\]]*\s+(?=\S)|[。！？]+[」』”’）]*(?=[^」』”’）])")
_STRIDE = 40
"""Characters between two places in a sentence once something of it was said: each look costs the whole sentence."""
_FIRST = 12
"""The same for the first place in a sentence."""
_GIVE_UP = 2000
"""Characters after which an open mark is no markup."""
_LONG = 600
"""Characters of a sentence after which its beginning is forgotten, so that the cost stays linear."""


class LiveFrontend:
    """Turns deltas of text into deltas of what should be spoken.

    ``feed`` returns only what no later delta can change: up to the end of a sentence, or up to a place among plain
    words that no rule reaches across. ``finish`` returns the rest. For prose, all that was returned, joined, is what
    ``spoken`` returns for the whole text. A table, a block of code and an SSML document come when they are complete.
    """

    def __init__(
        self,
        language: str,
        steps: Collection[str] = STEPS,
        pronunciations: Mapping[str, str] | None = None,
        *,
        name_emoji: bool = False,
    ) -> None:
        """Args and errors as for ``spoken``."""
        self._frontend = Frontend(language, steps, pronunciations, name_emoji=name_emoji)
        self._text = ""
        self._said = ""
        self._place = self._tried = 0
        self._inside = False
        self._line_before = 0
        self._between: str | None = None

    def feed(self, delta: str) -> Spoken:
        """Take the next part of the text; return what can be spoken now, perhaps nothing."""
        self._text += delta.replace("\r\n", "\n")
        return self._advance(final=False)

    def finish(self) -> Spoken:
        """Return what is left. The front end takes no more text."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> Spoken:
        said: list[str] = []
        while True:
            if not self._inside:
                self._text = self._text.lstrip("\n") if self._text.strip() else self._text
            if not self._text.strip():
                break
            block = begun(self._text, final=final, inside=self._inside, markup=self._frontend.has_markup)
            if block is None:
                break
            if block.end is not None:
                said.append(self._say(block.end, whole=True))
                self._forget(block.end, inside=False)
            elif not self._advance_in(block, said):
                break
        return self._frontend.finished("".join(said))

    def _advance_in(self, block: Begun, said: list[str]) -> bool:
        """Add what a block that goes on allows to ``said``.

        Returns whether the text was cut, so that the rest has to be looked at again.
        """
        if block.kind == ITEMS and block.limit:
            said.append(self._say(block.limit, whole=False, item=True))
            self._forget(block.limit + 1, inside=False)
            self._between = self._between and " "
            return True
        if block.kind != PLAIN:
            return False
        for end in reversed(self._new_sentence_ends(block.limit)):
            if self._is_closed(end):
                said.append(self._say(end, whole=False))
                self._forget(end, inside=True)
                return True
        place = self._last_place(block.limit)
        if place and not self._in_quotes(place) and self._is_closed(place):
            self._place = place
            said.append(self._say(place, whole=False))
            if place > _LONG:
                self._forget(place, inside=True)
                return True
        return False

    def _new_sentence_ends(self, limit: int) -> list[int]:
        """Return the ends of sentences that were not looked at yet."""
        if self._frontend.normalizes:
            ends = english.sentence_ends(self._text[:limit])
        else:
            ends = [match.end() for match in _SENTENCE_END.finditer(self._text, 0, limit)]
        ends = [end for end in ends if end > self._tried]
        self._tried = max(ends, default=self._tried)
        return ends

    def _last_place(self, limit: int) -> int:
        """Return a safe place further on than the last one, or 0."""
        least = self._place + (_STRIDE if self._said else _FIRST)
        pattern = _PLACE if self._frontend.normalizes else _WORD_END
        place = 0
        for match in pattern.finditer(self._text, min(least, limit), limit):
            place = match.end()
        return place

    def _is_closed(self, end: int) -> bool:
        """Return whether nothing before ``end`` is open that a later delta may close.

        What is open for too long is not markup but a lone mark.
        """
        if end > _GIVE_UP:
            return True
        if _OPEN_CALL.search(self._text, max(0, end - _STRIDE), end):
            return False
        return not (self._frontend.has_markup and _OPEN.search(self._prepared(end)))

    def _in_quotes(self, end: int) -> bool:
        """Return whether ``end`` is inside single quotes, which become double ones when they are closed."""
        head = self._text[:end]
        return self._frontend.normalizes and len(_OPEN_QUOTE.findall(head)) > len(_CLOSED_QUOTE.findall(head))

    def _prepared(self, end: int) -> str:
        return self._frontend.prepared(self._text[:end], [], line_before=self._line_before)

    def _say(self, end: int, *, whole: bool, item: bool = False) -> str:
        """Return what the text up to ``end`` adds to what was said of it. whole, item: of what the end is there."""
        text = self._prepared(end)
        if self._frontend.normalizes:
            text = self._in_words(text, whole=whole, item=item)
        added = _added(self._said, text)
        if not added.strip():
            return ""
        if not self._said:
            added = (self._between or "") + added.lstrip()
            self._between = self._between or ""
        self._said = text
        return added

    def _in_words(self, text: str, *, whole: bool, item: bool) -> str:
        paragraphs: list[str] = []
        for paragraph in english.code_in_words(text).split("\n\n"):
            words = " ".join(filter(None, map(english.words, english.sentences(paragraph))))
            inside = self._inside and not paragraphs
            if words and (inside or tidy.has_words(words)):
                paragraphs.append(words if inside else tidy.opened(words))
        if whole:
            return "\n\n".join(map(tidy.closed, paragraphs))
        if item:
            return "\n\n".join(paragraphs)
        return "\n\n".join([*map(tidy.closed, paragraphs[:-1]), *map(tidy.open_end, paragraphs[-1:])])

    def _forget(self, end: int, *, inside: bool) -> None:
        """Drop the text up to ``end``. inside: its paragraph goes on."""
        newline = self._text.rfind("\n", 0, end)
        self._line_before = 0 if not inside else end - newline - 1 if newline >= 0 else self._line_before + end
        if self._between is not None:
            spaced = self._text[:end][-1:].isspace() or self._text[end : end + 1].isspace()
            self._between = "\n\n" if not inside else " " if spaced else ""
        self._text = self._text[end:]
        self._said = ""
        self._place = self._tried = 0
        self._inside = inside


def _added(before: str, after: str) -> str:
    """Return what ``after`` has more than ``before``; where they differ against expectation, by the number of words."""
    if after.startswith(before):
        return after[len(before) :]
    rest = after.split(" ")[len(before.split(" ")) :]
    return " " + " ".join(rest) if rest else ""

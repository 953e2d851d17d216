"""The front end for text that arrives in deltas."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Mapping

from server.text import formula_markup, marks, ssml
from server.text.english import normalize as english
from server.text.english import tidy
from server.text.frontend import STEPS, Frontend, Spoken
from server.text.live_blocks import ITEMS, PLAIN, Begun, begun
from server.text.patterns import lazy

_AHEAD = 3
"""Number of plain words after a position that make it safe to emit: no rule looks back further."""
_WORD = r"[^\W\d_A-Z](?:[^\W\d_A-Z]|'(?=\w))*"
_PLACE = lazy(rf"(?<=[^\W\d_])(?<!\d0s),?(?=(?:[ \n]{_WORD},?){{{_AHEAD}}}[ \n])")
_WORD_END = lazy(r"(?<=\S)(?=[ ]+[^\s])|(?<=[。！？，、])(?=[^\s」』”’）])")
"""A safe position without normalization: the end of a word."""
_OPEN = lazy(r"(?<![\s*])\*|\*(?![\s*])|(?<!\w)_|_(?!\w)|~~|[`\[|]|<(?=[A-Za-z/!@#])")
"""Opening markup that a later delta may close."""
_OPEN_QUOTE = lazy(r"(?<!\w)'(?=\w)")
_CLOSED_QUOTE = lazy(r"(?<=[\w.,!?])'(?!\w)")
_OPEN_CALL = lazy(r"\w[(\[][^)\]\n]*$")
_OPEN_NUMBER = lazy(
    r"[$€£¥][\d.,]+(?:[a-zA-Z]{1,3}|[ ](?:m|b|tr)illion)?(?:[ ][a-z]+)?$|(?<!\w)\d{3}[ ]area$|\d[ ]?[a-zA-Z]{1,3}$"
)
"""A number that is read as the next words decide: "the $2bn relief package", "the 718 area code", "set it to 5 in"."""
_SENTENCE_END = lazy(r"[.!?…]+[\"')\]]*\s+(?=\S)|[。！？]+[」』”’）]*(?=[^」』”’）])")
_STRIDE = 40
"""Minimum characters between two positions in a sentence. Each attempt processes the whole sentence again."""
_FIRST = 12
"""Minimum characters before the first position in a sentence."""
_GIVE_UP = 2000
"""Characters after which an opening mark is treated as plain text."""
_NEAR = 3
"""Most words by which the end of what was spoken may move when later words change it."""
_LONG = 600
"""Characters of a sentence after which its beginning is dropped, so that the cost stays linear."""


class LiveFrontend:
    """Turns deltas of text into deltas of what should be spoken.

    ``feed`` returns only text that no later delta can change: up to the end of a sentence, or up to a position among
    plain words that no rule looks across. ``finish`` returns the rest. For prose, the concatenated results equal
    ``spoken`` of the whole text. A table, a code block and an SSML document are returned when they are complete.
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
        """Append text. Return what can be spoken now, which may be nothing."""
        self._text += delta.replace("\r\n", "\n")
        return self._advance(final=False)

    def finish(self) -> Spoken:
        """Return the remaining text. The front end accepts no more text afterwards."""
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
        """Append the speakable start of an incomplete block to ``said``.

        Returns True if text was removed, so that the remainder must be examined again.
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
        """Return the ends of sentences that were not examined before."""
        if self._frontend.normalizes:
            ends = english.sentence_ends(self._text[:limit])
        else:
            ends = [match.end() for match in _SENTENCE_END.finditer(self._text, 0, limit)]
        ends = [end for end in ends if end > self._tried]
        self._tried = max(ends, default=self._tried)
        return ends

    def _last_place(self, limit: int) -> int:
        """Return the last safe position beyond the current one, or 0."""
        least = self._place + (_STRIDE if self._said else _FIRST)
        pattern = _PLACE if self._frontend.normalizes else _WORD_END
        place = 0
        for match in pattern.finditer(self._text, min(least, limit), limit):
            place = match.end()
        return place

    def _is_closed(self, end: int) -> bool:
        """Return whether no markup before ``end`` can still be closed by a later delta.

        A mark that stays open for too long is plain text.
        """
        if end > _GIVE_UP:
            return True
        if any(pattern.search(self._text, max(0, end - _STRIDE), end) for pattern in (_OPEN_CALL, _OPEN_NUMBER)):
            return False
        if not self._frontend.has_markup:
            return True
        head = self._text[:end]
        return not (formula_markup.is_open(head) or ssml.is_open(head) or _OPEN.search(self._prepared(end)))

    def _in_quotes(self, end: int) -> bool:
        """Return whether ``end`` is inside single quotes, which are converted to double quotes when they are closed."""
        head = self._text[:end]
        return self._frontend.normalizes and len(_OPEN_QUOTE.findall(head)) > len(_CLOSED_QUOTE.findall(head))

    def _prepared(self, end: int) -> str:
        return self._frontend.prepared(self._text[:end], [], line_before=self._line_before)

    def _say(self, end: int, *, whole: bool, item: bool = False) -> str:
        """Return the new spoken text up to ``end``. whole: the block is complete; item: a list item is complete."""
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
            words = english.in_words(paragraph)
            inside = self._inside and not paragraphs
            if words and (inside or tidy.has_words(words)):
                paragraphs.append(words if inside else tidy.opened(words))
            elif pauses := "".join(marks.PAUSE.findall(words)):
                paragraphs.append(pauses)
        if whole:
            return "\n\n".join(map(tidy.closed, paragraphs))
        if item:
            return "\n\n".join(paragraphs)
        return "\n\n".join([*map(tidy.closed, paragraphs[:-1]), *map(tidy.open_end, paragraphs[-1:])])

    def _forget(self, end: int, *, inside: bool) -> None:
        """Drop the text up to ``end``. inside: the paragraph continues after it."""
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
    """Return the part of ``after`` beyond ``before``.

    If ``before`` is not a prefix, because later words changed it, its end is where its last word is, if that is at most
    ``_NEAR`` words away; otherwise after the same number of words, where parts between hyphens count as words.
    """
    if after.startswith(before):
        return after[len(before) :]
    spoken, words = before.split(" "), after.split(" ")
    ends = [end for end, word in enumerate(words, 1) if word == spoken[-1] and abs(end - len(spoken)) <= _NEAR]
    if ends:
        end = min(ends, key=lambda end: abs(end - len(spoken)))
    else:
        end = bisect_left(list(itertools.accumulate(map(_parts, words))), sum(map(_parts, spoken))) + 1
    return " " + " ".join(words[end:]) if words[end:] else ""


def _parts(word: str) -> int:
    return word.count("-") + 1

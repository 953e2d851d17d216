"""Pronunciations: words that a user respells, for example "SQL" as "sequel"."""

from __future__ import annotations

import re
from collections.abc import Mapping

from server.text import marks


class Pronunciations:
    """Replaces whole words. An entry without capitals matches in any case, an entry with capitals only exactly.

    Between ``mark`` and ``restore`` a respelling is a single private-use character, which no other rule changes.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        """entries: word -> respelling, at most ``marks.MOST_WORDS``. Further and empty words are ignored."""
        words = [(word, spoken) for word, spoken in entries.items() if word.strip()][: marks.MOST_WORDS]
        self._spoken = [spoken for _, spoken in words]
        self._exact = {word: index for index, (word, _) in enumerate(words) if word != word.lower()}
        self._folded = {word: index for index, (word, _) in enumerate(words) if word == word.lower()}
        self._pattern = re.compile(
            "|".join(map(_whole_word, sorted((word for word, _ in words), key=len, reverse=True)))
        )

    def mark(self, text: str) -> str:
        """Return ``text`` with a mark for each word that has an entry."""
        return self._pattern.sub(self._mark, text) if self._spoken else text

    def restore(self, text: str) -> str:
        """Return ``text`` with respellings for marks."""
        return marks.WORD.sub(lambda match: self._spoken[marks.word_index(match[0])], text)

    def _mark(self, match: re.Match[str]) -> str:
        word = match[0]
        index = self._exact.get(word, self._folded.get(word.lower()))
        return word if index is None else marks.word(index)


def _whole_word(word: str) -> str:
    before = r"(?<!\w)" if word[0].isalnum() else ""
    after = r"(?!\w)" if word[-1].isalnum() else ""
    exact = word != word.lower()
    return f"{before}{re.escape(word)}{after}" if exact else f"{before}(?i:{re.escape(word)}){after}"

"""Pronunciations: words that a user respells, for example "SQL" as "sequel"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

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
        self._pattern = re.compile(_any_of([word for word, _ in words]))

    def mark(self, text: str) -> str:
        """Return ``text`` with a mark for each word that has an entry."""
        return self._pattern.sub(self._mark, text) if self._spoken else text

    def restore(self, text: str) -> str:
        """Return ``text`` with respellings for marks."""
        return marks.WORD.sub(lambda match: self._spoken[marks.word_index(match[0])], text)

    def _mark(self, match: re.Match[str]) -> str:
        word = match[0]
        index = self._exact.get(word, self._folded.get(word.lower()))
        return word if index is None else marks.word(index, capital=word[0].isupper())


_Trie = dict[str, Any]
_END = ""
"""Key in a trie of what has to follow a complete word."""


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches the longest of ``words``, those with capitals first; never a part of a word.

    It is a trie, so that a text costs about the same for any number of words.
    """
    tries: list[_Trie] = [{}, {}, {}, {}]
    for word in words:
        exact, inside = word != word.lower(), word[0].isalnum()
        node = tries[2 * (not exact) + (not inside)]
        for character in word:
            node = node.setdefault(re.escape(character) if exact else _either_case(character), {})
        node[_END] = r"(?!\w)" if word[-1].isalnum() else ""
    return "|".join(rf"{before}(?:{_pattern(trie)})" for before, trie in zip([r"(?<!\w)", ""] * 2, tries, strict=True))


def _either_case(character: str) -> str:
    upper = character.upper()
    return re.escape(character) if upper == character or len(upper) != 1 else f"[{character}{upper}]"


def _pattern(trie: _Trie) -> str:
    """Return the pattern of a trie. It matches nothing if the trie is empty."""
    branches = [f"{first}(?:{_pattern(rest)})" for first, rest in trie.items() if first != _END]
    if _END in trie:
        branches.append(trie[_END])
    return "|".join(branches) if branches else "(?!)"

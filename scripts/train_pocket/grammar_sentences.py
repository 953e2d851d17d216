"""Generates everyday sentences from templates and word lists, to cover names, numbers and rare words.

A template is a sentence with alternatives in square brackets, separated by bars, and slots in braces. A slot is filled
from the word list or the number generator of its name; the suffix ``_c`` capitalizes. ``noun``, ``verb``, ``adjective``
and ``adverb`` cycle through the given words, so that all occur equally often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import yaml

from scripts.train_pocket.numbers import GENERATORS

FOLDER = Path(__file__).with_name("grammar")
"""Folder of the templates and word lists."""
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+?)(_c)?\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=(?!one\b|once\b|uni[^mn]|us[aeu]|eu|ewe|ut[ei])(?:[aeiou]|hour|honest|heir))")
PARTS = {"noun": "noun", "verb": "verb", "adjective": "adj", "adverb": "adv"}
"""Slots for single words -> WordNet's names of their parts of speech."""

_PRACTICE_WEIGHT = 3
"""How many more times templates for single words are used than others."""

Fill = Callable[[Random], str]


class Grammar:
    """Generates random sentences."""

    def __init__(
        self,
        words: dict[str, list[str]],
        source: Random,
        templates: list[str] | None = None,
        fills: dict[str, Fill] | None = None,
    ) -> None:
        """words: to practice, for each of ``PARTS``. templates: default ``templates.txt``. fills: more slots."""
        if templates is None:
            templates = (FOLDER / "templates.txt").read_text(encoding="utf-8").splitlines()
        practice = [template for template in templates if any(f"{{{slot}" in template for slot in PARTS)]
        self._templates = templates + _PRACTICE_WEIGHT * practice
        self._source = source
        self._fills = {
            **word_lists(),
            **GENERATORS,
            **{slot: cycle(words[slot], source) for slot in PARTS},
            **(fills or {}),
        }

    def sentences(self) -> Iterator[str]:
        """Yield sentences endlessly. They may repeat."""
        while True:
            templates = self._templates[:]
            self._source.shuffle(templates)
            yield from map(self._sentence, templates)

    def _sentence(self, template: str) -> str:
        text = _CHOICE.sub(lambda match: self._source.choice(match[1].split("|")), template)
        text = _SLOT.sub(self._fill, _SLOT.sub(self._fill, text))
        text = _ARTICLE.sub(r"\1n ", " ".join(text.split())).replace(" ,", ",")
        return text[0].upper() + text[1:]

    def _fill(self, match: re.Match[str]) -> str:
        filled = self._fills[match[1]](self._source)
        return filled[0].upper() + filled[1:] if match[2] else filled


def common_words(index: Path) -> list[str]:
    """Return the single words of a WordNet index that occur in its tagged texts (the count after the pointers)."""
    words = []
    for line in index.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if line[:1] != " " and len(fields[0]) > 1 and fields[0].isalpha() and int(fields[5 + int(fields[3])]) > 0:
            words.append(fields[0])
    return words


def word_lists(file: Path = FOLDER / "words.yaml") -> dict[str, Fill]:
    """Return a slot for each list of a file, whose entries are separated by semicolons."""
    table = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {name: choose([word.strip() for word in words.split(";")]) for name, words in table.items()}


def choose(words: list[str]) -> Fill:
    """Return a slot with a random one of the words."""
    return lambda source: source.choice(words)


def cycle(words: list[str], source: Random) -> Fill:
    """Return a slot in which all words occur equally often."""
    remaining: list[str] = []

    def fill(_: Random) -> str:
        if not remaining:
            remaining.extend(words)
            source.shuffle(remaining)
        return remaining.pop()

    return fill

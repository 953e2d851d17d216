"""Recognizes words that sound alike, as "your" and "you're", by the CMU Pronouncing Dictionary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache

from engine.prompt.readings import WORDS as HETERONYMS
from scripts.judge.paths import WEIGHTS

_MOST_WORDS = 5
"""Maximum words that are compared."""
_DIGITS = dict(enumerate("zero one two three four five six seven eight nine ten".split()))
_ENDINGS = {"am": "'m", "are": "'re", "is": "'s", "has": "'s", "will": "'ll", "would": "'d", "had": "'d", "have": "'ve"}
"""Whisper's normalizer writes contractions as two words."""

Sounds = frozenset[tuple[str, ...]]
"""All pronunciations, as phonemes without stress."""
_SILENT: Sounds = frozenset({()})


class Pronunciations:
    """The pronunciations of words.

    lines: of cmudict-en-us.dict, each "word PHONEMES". "word(2)" is another pronunciation of the word.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._words: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        for line in lines:
            word, *phonemes = line.split()
            self._words[word.partition("(")[0]].add(tuple(phonemes))

    def alike(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Return whether two groups of normalized words have a pronunciation in common, also a reduced one.

        Heteronyms are alike to nothing: "led" may be what was heard of "lead", read wrongly.
        """
        if not one or not other or max(len(one), len(other)) > _MOST_WORDS:
            return False
        if not HETERONYMS.isdisjoint((*one, *other)):
            return False
        return bool(self._sounds(tuple(one)) & self._sounds(tuple(other)))

    def _sounds(self, words: tuple[str, ...]) -> Sounds:
        if not words:
            return _SILENT
        first = words[0]
        word = _DIGITS.get(int(first), first) if first.isdecimal() else first
        sounds = {mine + rest for mine in self._words.get(word, ()) for rest in self._sounds(words[1:])}
        if len(words) > 1 and (ending := _ENDINGS.get(words[1])) is not None:
            contracted = self._words.get(first + ending, ())
            sounds |= {mine + rest for mine in contracted for rest in self._sounds(words[2:])}
        return frozenset(sounds)


@cache
def pronunciations() -> Pronunciations:
    """Return those of the dictionary that ``scripts.judge.weights`` downloads."""
    with (WEIGHTS / "cmudict-en-us.dict").open(encoding="utf-8") as lines:
        return Pronunciations(lines)

"""Finds when the phonemes of a recording are spoken, so that recordings train the codec's phoneme head.

The server's aligner finds the words. The phonemes of a word divide its time. In American utterances of the teacher,
65 % of the labels that follow from this equal those that follow from the teacher's own durations (measured with 40
utterances, by a script that is not in the repository).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from scripts.judge.sound import Samples
from scripts.train_pocket.phonemes import Phonemizer
from scripts.train_pocket.recorded_pieces import SpokenPhoneme
from scripts.train_pocket.teacher_audio import Inventory
from server.alignment.aligner import english_aligner

_STRESS = "ˈˌ "
"""Symbols without a duration of their own."""
_VOWELS = "iuɑɔɛɪʊʌəæɜɐᵊᵻAIOQWYaeo"
_VOWEL, _LENGTH_MARK = 1.6, 0.6
"""Durations of a vowel and of a length mark, in durations of a consonant."""


class PhonemeTimes:
    """Times of the phonemes of what is said in a recording."""

    def __init__(self, vocabulary: Path, phonemizer: Phonemizer) -> None:
        """vocabulary: the teacher's vocab.json."""
        self._indices: dict[str, int] = json.loads(vocabulary.read_text(encoding="utf-8"))
        self._inventory = Inventory(self._indices)
        self._phonemes = phonemizer

    def __call__(self, samples: Samples, text: str) -> list[SpokenPhoneme]:
        """Return the phonemes of ``text`` in samples [n] at 24 kHz, in order.

        Words for which the phonemizer returns None have none.
        """
        words = english_aligner().align((samples * 32767).round().astype(np.int16), text)
        return [phoneme for each in words for phoneme in self._of_word(each.word, each.start, each.end)]

    def _of_word(self, word: str, start: float, end: float) -> list[SpokenPhoneme]:
        symbols = self._phonemes(word, "american") or ""
        sounds = self._inventory.sounds([self._indices[symbol] for symbol in symbols])
        durations = np.array([_duration(symbol) if sound else 0 for symbol, sound in zip(symbols, sounds, strict=True)])
        if not durations.sum():
            return []
        ends = start + (end - start) * durations.cumsum() / durations.sum()
        times = zip(sounds, [start, *ends[:-1].tolist()], ends.tolist(), strict=True)
        return [SpokenPhoneme(sound, begin, stop) for sound, begin, stop in times if stop > begin]


def _duration(symbol: str) -> float:
    if symbol in _STRESS:
        return 0.0
    if symbol == "ː":
        return _LENGTH_MARK
    return _VOWEL if symbol in _VOWELS else 1.0

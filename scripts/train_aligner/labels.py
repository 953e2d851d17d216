"""Recovers when each word is spoken from the phoneme labels of the teacher's audio shards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scripts.train_pocket.teacher_audio import Inventory

_BREAK = re.compile(r"[\s—…]+")
"""Separates the phonemes of two words. ``server.alignment.tokens`` splits the text in the same places."""
_LOOK_AHEAD = 3
"""Sounds that may lack a label: a pause can cover them."""
_MOST_LOST, _MOST_LOST_SHARE = 2, 0.03
"""Sounds that may lack a label, in any utterance and as a share of a long one."""


class Unaligned(ValueError):
    """The labels do not fit the phonemes, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class _Sound:
    """Neighboring symbols with one label. words: the word of each symbol."""

    label: int
    words: tuple[int, ...]


def word_spans(
    phonemes: str, labels: NDArray[np.int16], vocabulary: Mapping[str, int], inventory: Inventory
) -> NDArray[np.int64]:
    """Return the first label of each word and the one after its last, int64 [words, 2]. Raises Unaligned.

    phonemes: symbols of ``vocabulary``. labels: [n], the label of each quarter of a frame (20 ms); 0 for silence.
    """
    sounds = _sounds(phonemes, vocabulary, inventory)
    of_label = _follow(sounds, labels)
    count = max((word for sound in sounds for word in sound.words), default=-1) + 1
    spans = np.full((count, 2), -1, np.int64)
    for index, sound in enumerate(sounds):
        quarters = np.flatnonzero(of_label == index)
        for word, share in zip(sound.words, np.array_split(quarters, len(sound.words)), strict=True):
            if len(share):
                spans[word, 0] = share[0] if spans[word, 0] < 0 else spans[word, 0]
                spans[word, 1] = share[-1] + 1
    if (spans[:, 0] < 0).any():
        raise Unaligned(f"word {int(np.argmax(spans[:, 0] < 0))} of {count} has no label")
    return spans


def _sounds(phonemes: str, vocabulary: Mapping[str, int], inventory: Inventory) -> list[_Sound]:
    """Return the sounds of an utterance in order. Punctuation has none, and separates equal sounds."""
    symbols = [vocabulary[symbol] for symbol in phonemes]
    sounds: list[_Sound] = []
    joins = False
    for label, word in zip(inventory.sounds(symbols), _words_of_symbols(phonemes), strict=True):
        if label == 0:
            joins = False
        elif joins and sounds[-1].label == label:
            sounds[-1] = _Sound(label, (*sounds[-1].words, word))
        else:
            sounds.append(_Sound(label, (word,)))
            joins = True
    return sounds


def _words_of_symbols(phonemes: str) -> list[int]:
    """Return the word of each symbol. A separator belongs to the next word, as its duration does."""
    words, number = [], -1
    position = 0
    for match in _BREAK.finditer(phonemes + " "):
        if any(map(str.isalpha, phonemes[position : match.start()])):
            number += 1
        words += [max(0, number)] * (match.start() - position) + [number + 1] * (match.end() - match.start())
        position = match.end()
    return [min(word, number) for word in words[: len(phonemes)]]


def _follow(sounds: list[_Sound], labels: NDArray[np.int16]) -> NDArray[np.int64]:
    """Return the index of the sound of each label; -1 for silence. Raises Unaligned."""
    of_label = np.full(len(labels), -1, np.int64)
    current, lost = -1, 0
    for index in np.flatnonzero(labels):
        label = int(labels[index])
        if current >= 0 and sounds[current].label == label:
            of_label[index] = current
            continue
        ahead = range(current + 1, min(len(sounds), current + 2 + _LOOK_AHEAD))
        found = next((number for number in ahead if sounds[number].label == label), None)
        if found is None:
            raise Unaligned(f"label {label} at {index} is not among the next sounds")
        lost += found - current - 1
        current = found
        of_label[index] = current
    lost += len(sounds) - 1 - current
    if lost > max(_MOST_LOST, _MOST_LOST_SHARE * len(sounds)):
        raise Unaligned(f"{lost} of {len(sounds)} sounds have no label")
    return of_label

"""What the talker learns from: texts, codes and x-vectors, by utterance and by speaker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scripts.train_pocket import codes as codes_file
from scripts.train_pocket.utterances import read_plan

_HELD_BACK = 100
"""One utterance in this many is never trained on."""


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """One utterance. id: its line of the plan; codes: int16 [frames, 16]."""

    id: int
    text: str
    speaker: str
    codes: NDArray[np.int16]


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Utterances to train on and held back, and what a speaker's can draw on.

    by_speaker: numbers of a speaker's utterances in ``trained``. vectors: a speaker's x-vectors, float32 [n, width] of
    unit size, and the ids of the utterances that they were made from, int64 [n].
    """

    trained: list[Spoken]
    held_back: list[Spoken]
    by_speaker: dict[str, NDArray[np.int64]]
    vectors: dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]]


def read_corpus(plan: Path, codes: Path, xvectors: Path, *, named: Sequence[str]) -> Corpus:
    """Every utterance that has codes and whose speaker is ``named`` or has an x-vector.

    Raises FileNotFoundError for a file that is not there, ValueError when nothing is left.
    """
    vectors = _read_vectors(xvectors)
    spoken = [each for each in _read_spoken(plan, codes) if each.speaker in named or each.speaker in vectors]
    if not spoken:
        raise ValueError(f"no utterance of {plan} has codes in {codes} and a voice in {xvectors}")
    trained = [each for each in spoken if each.id % _HELD_BACK] or spoken
    held_back = [each for each in spoken if each.id % _HELD_BACK == 0]
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(trained):
        numbers[each.speaker].append(number)
    by_speaker = {speaker: np.array(own, np.int64) for speaker, own in numbers.items()}
    return Corpus(trained, held_back, by_speaker, vectors)


def _read_spoken(plan: Path, folder: Path) -> list[Spoken]:
    utterances = codes_file.read(folder)
    place = {number: index for index, number in enumerate(utterances.ids.tolist())}
    return [
        Spoken(each.id, each.text, each.speaker, utterances[place[each.id]])
        for each in read_plan(plan)
        if each.id in place
    ]


def _read_vectors(file: Path) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]]:
    with np.load(file) as arrays:
        speakers, ids, vectors = arrays["speakers"], arrays["ids"], arrays["vectors"].astype(np.float32)
    return {str(speaker): (ids[speakers == speaker], vectors[speakers == speaker]) for speaker in np.unique(speakers)}

"""The training data of the talker: texts, codes and x-vectors, by utterance and by speaker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scripts.train_pocket import codes as codes_file
from scripts.train_pocket.utterances import read_plan
from scripts.train_pocket.word_phonemes import word_notations

_HELD_OUT_INTERVAL = 100
"""One of this many utterances is held out."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingUtterance:
    """One utterance. id: its line of the plan. codes: int16 [frames, 16]. words: see ``word_notations``."""

    id: int
    text: str
    speaker: str
    codes: NDArray[np.int16]
    words: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Training utterances and held-out ones, and the data of each speaker.

    by_speaker: indices of a speaker's utterances in ``trained``. vectors: ids int64 [n] of utterances of a speaker, and
    their x-vectors float32 [n, width] with unit RMS. degraded: codes of some utterances with noise, by id.
    """

    trained: list[TrainingUtterance]
    held_back: list[TrainingUtterance]
    by_speaker: dict[str, NDArray[np.int64]]
    vectors: dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]]
    degraded: dict[int, NDArray[np.int16]] = field(default_factory=dict)


def read_corpus(
    plan: Path, codes: Path, xvectors: Path | None, *, named: Sequence[str], degraded: Path | None = None
) -> Corpus:
    """Read the utterances that have codes and whose speaker is ``named`` or has an x-vector.

    xvectors: file, or None if all speakers are named. degraded: folder with the codes of degraded audio.
    Raises FileNotFoundError for a missing file, ValueError if there are no such utterances.
    """
    vectors = _read_vectors(xvectors) if xvectors else {}
    utterances = [each for each in _read_utterances(plan, codes) if each.speaker in named or each.speaker in vectors]
    if not utterances:
        known = f"a named voice or an x-vector in {xvectors}" if xvectors else "a named voice"
        raise ValueError(f"no utterance of {plan} has codes in {codes} and {known}")
    trained = [each for each in utterances if each.id % _HELD_OUT_INTERVAL] or utterances
    held_back = [each for each in utterances if each.id % _HELD_OUT_INTERVAL == 0]
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(trained):
        numbers[each.speaker].append(number)
    by_speaker = {speaker: np.array(indices, np.int64) for speaker, indices in numbers.items()}
    return Corpus(trained, held_back, by_speaker, vectors, _read_degraded(degraded) if degraded else {})


def _read_degraded(folder: Path) -> dict[int, NDArray[np.int16]]:
    coded = codes_file.read(folder)
    return {number: coded[index] for index, number in enumerate(coded.ids.tolist())}


def _read_utterances(plan: Path, folder: Path) -> list[TrainingUtterance]:
    coded = codes_file.read(folder)
    index_of = {number: index for index, number in enumerate(coded.ids.tolist())}
    return [
        TrainingUtterance(
            each.id, each.text, each.speaker, coded[index_of[each.id]], each.words or word_notations(each.text, [])
        )
        for each in read_plan(plan)
        if each.id in index_of
    ]


def _read_vectors(file: Path) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]]:
    with np.load(file) as arrays:
        speakers, ids, vectors = arrays["speakers"], arrays["ids"], arrays["vectors"].astype(np.float32)
    order = np.argsort(speakers, kind="stable")
    names, starts = np.unique(speakers[order], return_index=True)
    groups = np.split(order, starts[1:])
    return {str(name): (ids[group], vectors[group]) for name, group in zip(names, groups, strict=True)}

"""The teacher's audio shards and their speakers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scripts.train_pocket.speakers import read_speakers
from scripts.train_pocket.utterances import read_plan

SAMPLE_RATE = 24000


@dataclass(frozen=True, slots=True)
class Shard:
    """One file. ids: int64 [n]. starts: int64 [n + 1]; utterance i has samples starts[i] to starts[i + 1]."""

    file: Path
    ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    def samples(self) -> npt.NDArray[np.int16]:
        """Read all samples from the file."""
        with np.load(self.file) as arrays:
            samples: npt.NDArray[np.int16] = arrays["samples"]
            return samples


def shards(folder: Path) -> Iterator[Shard]:
    """Yield all shards, first those with number 0 of all ranks. Raises FileNotFoundError if there are none."""
    files = sorted(folder.glob("shard-*-*.npz"), key=lambda file: file.stem.split("-")[::-1])
    if not files:
        raise FileNotFoundError(f"{folder} has no shard-*.npz")
    for file in files:
        with np.load(file) as arrays:
            yield Shard(file, arrays["ids"], arrays["starts"])


def speakers_by_id(plan: Path) -> dict[int, str]:
    """Return the speaker of each utterance of the plan, by id."""
    return {utterance.id: utterance.speaker for utterance in read_plan(plan)}


def mixtures(speakers: Path, names: list[str]) -> npt.NDArray[np.float32]:
    """Return the weights of the teacher's voices [names, voices]. Rows have a sum of one."""
    known = read_speakers(speakers)
    voices = sorted({voice for speaker in known.values() for voice in speaker.mix})
    weights = [[known[name].mix.get(voice, 0.0) for voice in voices] for name in names]
    return np.array(weights, np.float32)

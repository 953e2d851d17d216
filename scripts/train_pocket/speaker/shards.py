"""The teacher's audio shards and who speaks in them."""

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
    """One file. ids int64 [n]; starts int64 [n + 1], utterance i is samples starts[i] to starts[i + 1]."""

    file: Path
    ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    def samples(self) -> npt.NDArray[np.int16]:
        """All samples, read from the file now."""
        with np.load(self.file) as arrays:
            samples: npt.NDArray[np.int16] = arrays["samples"]
            return samples


def shards(folder: Path) -> Iterator[Shard]:
    """All shards, the first of every rank before the second of any. Raises FileNotFoundError when there is none."""
    files = sorted(folder.glob("shard-*-*.npz"), key=lambda file: file.stem.split("-")[::-1])
    if not files:
        raise FileNotFoundError(f"no shard-*.npz in {folder}")
    for file in files:
        with np.load(file) as arrays:
            yield Shard(file, arrays["ids"], arrays["starts"])


def speakers_by_id(plan: Path) -> dict[int, str]:
    """Who speaks each utterance of the plan."""
    return {utterance.id: utterance.speaker for utterance in read_plan(plan)}


def mixtures(speakers: Path, names: list[str]) -> npt.NDArray[np.float32]:
    """Weights of the teacher's voices in each named speaker [names, voices], rows summing to one."""
    known = read_speakers(speakers)
    voices = sorted({voice for speaker in known.values() for voice in speaker.mix})
    weights = [[known[name].mix.get(voice, 0.0) for voice in voices] for name in names]
    return np.array(weights, np.float32)

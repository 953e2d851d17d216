"""Utterances as sound, in files that appear whole: written under another name, then renamed.

``shard-RRR-KKK.npz`` (rank, number): ids int64 [n]; samples int16 [total], 24 kHz mono, one utterance after the other,
each a whole number of codec frames; starts int64 [n + 1] into samples; labels int16 [total / 1920, 4]: for each quarter
of a frame the teacher's index of the sound at its centre, 0 for none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

FRAME_SAMPLES = 1920
LABELS = 4


@dataclass(frozen=True, slots=True)
class Clip:
    """One utterance. samples int16 [frames * 1920]; labels int16 [frames, 4]."""

    samples: npt.NDArray[np.int16]
    labels: npt.NDArray[np.int16]


@dataclass
class ShardWriter:
    """Gathers one rank's clips and writes a shard whenever ``shard_samples`` are there."""

    folder: Path
    rank: int
    shard_samples: int
    _clips: list[tuple[int, Clip]] = field(default_factory=list)
    _waiting: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(file.stem.rsplit("-", 1)[1]) for file in self.folder.glob(f"shard-{self.rank:03d}-*.npz")]
        self._number = max(numbers, default=-1) + 1

    def add(self, utterance: int, clip: Clip) -> bool:
        """Whether a shard was written."""
        self._clips.append((utterance, clip))
        self._waiting += len(clip.samples)
        if self._waiting < self.shard_samples:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Write what waits, if anything does."""
        if not self._clips:
            return
        clips = [clip for _, clip in self._clips]
        file = self.folder / f"shard-{self.rank:03d}-{self._number:03d}.npz"
        partial = file.with_suffix(".partial")
        with partial.open("wb") as out:
            np.savez(
                out,
                ids=np.array([utterance for utterance, _ in self._clips], dtype=np.int64),
                samples=np.concatenate([clip.samples for clip in clips]),
                starts=np.cumsum([0, *(len(clip.samples) for clip in clips)]).astype(np.int64),
                labels=np.concatenate([clip.labels for clip in clips]),
            )
        partial.replace(file)
        self._clips, self._waiting = [], 0
        self._number += 1


def spoken(folder: Path) -> set[int]:
    """Ids of the utterances in all shards of ``folder``."""
    ids: set[int] = set()
    for file in sorted(folder.glob("shard-*.npz")):
        with np.load(file) as shard:
            ids.update(shard["ids"].tolist())
    return ids

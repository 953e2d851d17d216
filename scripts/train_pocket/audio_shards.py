"""Shards of audio. They are written atomically.

``shard-RRR-KKK.npz`` (rank, number) has ids int64 [n]; samples int16 [total], 24 kHz mono, the concatenated utterances,
each padded to complete codec frames; starts int64 [n + 1], offsets into samples; labels int16 [total / 1920, 4], for
each quarter of a frame the teacher's index of the phoneme at its center, 0 for silence.
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
    """Buffers the clips of one rank, and writes a shard when it has ``shard_samples`` samples."""

    folder: Path
    rank: int
    shard_samples: int
    _clips: list[tuple[int, Clip]] = field(default_factory=list)
    _buffered_samples: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(file.stem.rsplit("-", 1)[1]) for file in self.folder.glob(f"shard-{self.rank:03d}-*.npz")]
        self._number = max(numbers, default=-1) + 1

    def add(self, utterance: int, clip: Clip) -> bool:
        """Add a clip. Return whether a shard was written."""
        self._clips.append((utterance, clip))
        self._buffered_samples += len(clip.samples)
        if self._buffered_samples < self.shard_samples:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Write the buffered clips, if any."""
        if not self._clips:
            return
        clips = [clip for _, clip in self._clips]
        file = self.folder / f"shard-{self.rank:03d}-{self._number:03d}.npz"
        temporary = file.with_suffix(".partial")
        with temporary.open("wb") as out:
            np.savez(
                out,
                ids=np.array([utterance for utterance, _ in self._clips], dtype=np.int64),
                samples=np.concatenate([clip.samples for clip in clips]),
                starts=np.cumsum([0, *(len(clip.samples) for clip in clips)]).astype(np.int64),
                labels=np.concatenate([clip.labels for clip in clips]),
            )
        temporary.replace(file)
        self._clips, self._buffered_samples = [], 0
        self._number += 1


def utterance_ids(folder: Path) -> set[int]:
    """Return the ids of the utterances in all shards of ``folder``."""
    ids: set[int] = set()
    for file in sorted(folder.glob("shard-*.npz")):
        with np.load(file) as shard:
            ids.update(shard["ids"].tolist())
    return ids

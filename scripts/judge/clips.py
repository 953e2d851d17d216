"""The teacher's recordings in the repository: named voices, and speakers that are not in the training data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from scripts.judge.paths import DATA

INDEX = DATA / "clips.tsv"


@dataclass(frozen=True)
class Clip:
    """One recording. speaker: a voice of the checkpoint, or the name of an unseen speaker."""

    file: Path
    speaker: str
    text: str


@dataclass(frozen=True)
class Clips:
    """All recordings. named: several for each voice. unseen: one for each speaker."""

    named: dict[str, list[Clip]]
    unseen: list[Clip]

    def all(self) -> list[Clip]:
        """Return all clips."""
        return [*(clip for clips in self.named.values() for clip in clips), *self.unseen]


UNSEEN = "unseen"
"""Prefix of the names of unseen speakers."""


def read_clips(index: Path = INDEX) -> Clips:
    """Read an index: FILE, SPEAKER and TEXT in each line, separated by tabs. Files are in the folder of the index."""
    named: dict[str, list[Clip]] = {}
    unseen: list[Clip] = []
    with index.open(encoding="utf-8", newline="") as lines:
        for name, speaker, text in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            clip = Clip(index.parent / name, speaker, text)
            (unseen if speaker.startswith(UNSEEN) else named.setdefault(speaker, [])).append(clip)
    return Clips(named, unseen)

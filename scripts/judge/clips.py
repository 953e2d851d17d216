"""The teacher's recordings in the repository: of the named voices, and of speakers that training never heard."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from scripts.judge.places import DATA

INDEX = DATA / "clips.tsv"


@dataclass(frozen=True)
class Clip:
    """One recording. speaker: a name in the checkpoint, or an unseen speaker's."""

    file: Path
    speaker: str
    text: str


@dataclass(frozen=True)
class Clips:
    """named: by voice, in-order; unseen: one a speaker."""

    named: dict[str, list[Clip]]
    unseen: list[Clip]

    def all(self) -> list[Clip]:
        """Every clip."""
        return [*(clip for clips in self.named.values() for clip in clips), *self.unseen]


UNSEEN = "unseen"
"""What an unseen speaker's name begins with."""


def read_clips(index: Path = INDEX) -> Clips:
    """FILE, SPEAKER, TEXT a line, with tabs between; files beside the index."""
    named: dict[str, list[Clip]] = {}
    unseen: list[Clip] = []
    with index.open(encoding="utf-8", newline="") as lines:
        for name, speaker, text in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            clip = Clip(index.parent / name, speaker, text)
            (unseen if speaker.startswith(UNSEEN) else named.setdefault(speaker, [])).append(clip)
    return Clips(named, unseen)

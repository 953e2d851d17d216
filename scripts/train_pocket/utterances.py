"""The plan: utterances with their speakers, as a gzipped file of JSON lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

Accent = Literal["american", "british"]
FIRST_RECORDED = 20_000_000
"""Ids from here on are recordings of people."""


@dataclass(frozen=True, slots=True)
class PlannedUtterance:
    """One utterance.

    phonemes: symbols of the teacher's vocabulary; empty if the teacher does not speak the utterance.
    speed: 1.0 is the teacher's default. words: see ``word_notations``.
    """

    id: int
    text: str
    phonemes: str
    speaker: str
    speed: float
    accent: Accent
    words: str = ""


def write_plan(file: Path, utterances: Iterable[PlannedUtterance]) -> None:
    """Write the utterances in order, gzipped if the name ends in .gz. The bytes are reproducible."""
    lines = "".join(json.dumps(asdict(utterance), ensure_ascii=False) + "\n" for utterance in utterances).encode()
    temporary = file.with_name(file.name + ".partial")
    temporary.write_bytes(gzip.compress(lines, mtime=0) if file.suffix == ".gz" else lines)
    temporary.replace(file)


def read_plan(file: Path, first: int = 0, count: int | None = None) -> Iterator[PlannedUtterance]:
    """Yield ``count`` utterances (default all), starting at line ``first``."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        for line in islice(lines, first, None if count is None else first + count):
            yield PlannedUtterance(**json.loads(line))

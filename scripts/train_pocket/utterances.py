"""The plan: which speaker says which text, in one gzipped file of JSON lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

Accent = Literal["american", "british"]


@dataclass(frozen=True, slots=True)
class Utterance:
    """One line. phonemes: symbols of the teacher's vocabulary; speed: 1.0 is the teacher's own."""

    id: int
    text: str
    phonemes: str
    speaker: str
    speed: float
    accent: Accent


def write_plan(file: Path, utterances: Iterable[Utterance]) -> None:
    """Write ``utterances`` in their order, gzipped where the name ends in .gz; the same input gives the same bytes."""
    lines = "".join(json.dumps(asdict(utterance), ensure_ascii=False) + "\n" for utterance in utterances).encode()
    partial = file.with_name(file.name + ".partial")
    partial.write_bytes(gzip.compress(lines, mtime=0) if file.suffix == ".gz" else lines)
    partial.replace(file)


def read_plan(file: Path, first: int = 0, count: int | None = None) -> Iterator[Utterance]:
    """``count`` utterances (all by default) from line ``first`` on."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        for line in islice(lines, first, None if count is None else first + count):
            yield Utterance(**json.loads(line))

"""Pieces of people's recordings on disk: FLAC files, and ``pieces.jsonl`` with what is said in them, and when."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

_LIST = "pieces.jsonl"


class SpokenPhoneme(NamedTuple):
    """symbol: the phoneme's index in the teacher's vocabulary. start, end: its times in seconds."""

    symbol: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class RecordedPiece:
    """A file with mono samples at 24 kHz, its speaker, and what is said in it. words: see ``word_notations``."""

    file: str
    speaker: str
    text: str
    words: str
    phonemes: list[SpokenPhoneme]


def write_pieces(folder: Path, pieces: Iterable[RecordedPiece]) -> None:
    """Write the list of the pieces, whose files are in the folder."""
    lines = "".join(json.dumps(asdict(piece), ensure_ascii=False) + "\n" for piece in pieces)
    (folder / _LIST).write_text(lines, encoding="utf-8")


def read_pieces(folder: Path) -> list[RecordedPiece]:
    """Return the pieces in a folder. Raises FileNotFoundError if it has none."""
    rows = [json.loads(line) for line in (folder / _LIST).read_text(encoding="utf-8").splitlines()]
    return [RecordedPiece(**row | {"phonemes": [SpokenPhoneme(*each) for each in row["phonemes"]]}) for row in rows]

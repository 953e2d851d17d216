"""Lists of recordings to judge, and their scores, between the interpreter that speaks and the one that listens."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.judge.places import JUDGE_PYTHON, ROOT

Row = dict[str, Any]
"""Scores of one recording, as ``score_files`` prints them."""


@dataclass(frozen=True)
class Recording:
    """A file to judge, the words that should be in it, and a recording of the speaker it should sound like."""

    wav: Path
    text: str
    reference: Path | None = None


def read_list(file: Path) -> list[Recording]:
    """WAV, TEXT and, optionally, REFERENCE a line, with tabs between; paths relative to the list's folder."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
    there = file.parent
    return [Recording(there / row[0], row[1], there / row[2] if len(row) > 2 and row[2] else None) for row in rows]


def write_list(file: Path, recordings: Iterable[Recording]) -> None:
    """The inverse of ``read_list``, with absolute paths."""
    rows = [
        (
            str(each.wav.absolute()),
            " ".join(each.text.split()),
            str(each.reference.absolute()) if each.reference else "",
        )
        for each in recordings
    ]
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def judged(recordings: Sequence[Recording], judges: str | None = None) -> list[Row]:
    """The rows of ``recordings``, in order, by the judges in their own interpreter.

    Raises FileNotFoundError where it is not installed, subprocess.CalledProcessError where they fail.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "list.tsv"
        write_list(file, recordings)
        command = [str(JUDGE_PYTHON), "-m", "scripts.judge.score_files", str(file)]
        command += ["--judges", judges] if judges else []
        answer = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in answer.splitlines()[: len(recordings)]]

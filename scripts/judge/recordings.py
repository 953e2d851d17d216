"""Lists of recordings to judge. The judges run in another environment, and exchange files with this one."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.judge.paths import JUDGE_PYTHON, ROOT

_AUDIO = {".wav", ".flac", ".mp3", ".ogg"}
Row = dict[str, Any]
"""Scores of one recording, as ``score_files`` prints them."""


@dataclass(frozen=True)
class Recording:
    """A file to judge. text: its expected words. reference: a recording of its expected speaker."""

    wav: Path
    text: str
    reference: Path | None = None


def audio_files(folder: Path) -> list[Path]:
    """Return the recordings in a folder and its subfolders, in the order of their names."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in _AUDIO)


def read_list(file: Path) -> list[Recording]:
    """Read WAV, TEXT and optionally REFERENCE from each line, separated by tabs. Paths are relative to the list."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
    folder = file.parent
    return [Recording(folder / row[0], row[1], folder / row[2] if len(row) > 2 and row[2] else None) for row in rows]


def write_list(file: Path, recordings: Iterable[Recording]) -> None:
    """Write a list for ``read_list``, with absolute paths."""
    rows = [
        (
            str(each.wav.absolute()),
            " ".join(each.text.split()),
            str(each.reference.absolute()) if each.reference else "",
        )
        for each in recordings
    ]
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def run_judges(recordings: Sequence[Recording], judges: str | None = None) -> list[Row]:
    """Run the judges in their own environment. Return the scores of ``recordings`` in the same order.

    Raises FileNotFoundError when the environment is not installed, subprocess.CalledProcessError when a judge fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "list.tsv"
        write_list(file, recordings)
        command = [str(JUDGE_PYTHON), "-m", "scripts.judge.score_files", str(file)]
        command += ["--judges", judges] if judges else []
        output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()[: len(recordings)]]


def run_preferences(choices: Sequence[tuple[Path, str, str]]) -> list[float]:
    """Return, for each (recording, right, wrong), how much more likely the right spelling is (natural logarithm).

    Raises as ``run_judges``.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "list.tsv"
        rows = [(str(wav.absolute()), right, wrong) for wav, right, wrong in choices]
        file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
        command = [str(JUDGE_PYTHON), "-m", "scripts.judge.preferences", str(file)]
        output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(line) for line in output.splitlines()]

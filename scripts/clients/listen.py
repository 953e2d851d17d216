"""Counts the words of a spoken dialogue that a speech recognizer hears wrong, in the environment of ``make judge``."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from scripts.clients.dialogue import TURNS
from scripts.judge.paths import JUDGE_PYTHON, ROOT

_SECONDS = 1800.0


def require_judge() -> None:
    """Raise SystemExit if the judge is not installed."""
    if not JUDGE_PYTHON.exists():
        raise SystemExit("--listen needs the environment of the judge; install it: make .venv-judge/.installed")


def word_errors(folder: Path) -> str:
    """Return how many words of the turns in ``folder`` are heard wrong, as ``errors of words``."""
    with tempfile.TemporaryDirectory() as temporary:
        turns = Path(temporary) / "turns.tsv"
        lines = [f"{file}\t{' '.join(TURNS[int(file.stem)].split())}\n" for file in sorted(folder.iterdir())]
        turns.write_text("".join(lines), encoding="utf-8")
        command = [str(JUDGE_PYTHON), "-m", "scripts.judge.score_files", str(turns), "--judges", "moonshine"]
        printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
    scores = [json.loads(line)["moonshine"] for line in printed.splitlines()[:-1]]
    return f"{sum(each['errors'] for each in scores)} of {sum(each['words'] for each in scores)}"

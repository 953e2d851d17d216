"""Paths of the judge. Everything in ``CACHE`` can be deleted."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parents[1]
DATA = PACKAGE / "data"
CACHE = ROOT / ".judge"
WEIGHTS = CACHE / "weights"
JUDGMENTS = CACHE / "heard"
JUDGE_PYTHON = ROOT / ".venv-judge" / "bin" / "python"

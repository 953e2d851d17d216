"""Where the judge keeps what it downloads and makes; all of it may be deleted."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parents[1]
DATA = PACKAGE / "data"
KEPT = ROOT / ".judge"
WEIGHTS = KEPT / "weights"
HEARD = KEPT / "heard"
JUDGE_PYTHON = ROOT / ".venv-judge" / "bin" / "python"

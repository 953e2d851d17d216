"""``sonant doctor``."""

from __future__ import annotations

import subprocess
import sys

import typer


def doctor() -> None:
    """Report what this machine can run."""
    # The report needs torch, which this process never imports.
    raise typer.Exit(subprocess.run([sys.executable, "-m", "engine.doctor"], check=False).returncode)

"""The ``sonant doctor`` command: reports what this machine can run."""

from __future__ import annotations

import typer

from server.cli.console import plain_errors
from server.cli.engine_program import run_engine_program
from server.package_data import POCKET


def doctor() -> None:
    """Report what this machine can run."""
    with plain_errors("sonant doctor"):
        code = run_engine_program("engine.doctor", str(POCKET), environment={"TORCH_CPP_LOG_LEVEL": "ERROR"})
    raise typer.Exit(code)

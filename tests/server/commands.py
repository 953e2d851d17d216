"""Run the project's commands, as subprocesses or in the test process."""

from __future__ import annotations

import os
import subprocess
import sys

from typer.testing import CliRunner, Result

from server.cli.main import create_app
from tests.server.serving import ROOT, TIMEOUT

FAST_START = {
    "SONANT_ENGINE__THREADS": "1",
    "SONANT_ENGINE__TALKER__WEIGHTS": "exact",
    "SONANT_ENGINE__CODE2WAV__DTYPE": "int16",
}
"""Environment variables for an engine that starts fast, like ``engine_settings``."""


def run_module(
    module: str, *arguments: object, typed: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module`` to completion with additional environment variables. typed: its standard input."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **variables},
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def run_command(command: str, *arguments: object, typed: str | None = None, **variables: str) -> Result:
    """Run a subcommand of ``sonant`` in this process, which has imported its modules already. Not thread-safe.

    typed: its standard input.
    """
    app = create_app([command])
    words = [command, *map(str, arguments)]
    return CliRunner().invoke(app, words, input=typed, env=variables, catch_exceptions=False)

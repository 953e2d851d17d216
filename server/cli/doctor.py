"""The ``sonant doctor`` command: reports what this machine can run."""

from __future__ import annotations

import os
import subprocess
import sys

import typer

from server.cli.console import plain_errors


def doctor() -> None:
    """Report what this machine can run."""
    # The report needs torch, which this process never imports. The child has its own session: Ctrl-C reaches only this
    # process, which then kills the child.
    command = [sys.executable, "-m", "engine.doctor"]
    environment = {**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"}
    with plain_errors("sonant doctor"):
        done = subprocess.run(command, check=False, env=environment, start_new_session=True)
    raise typer.Exit(done.returncode)

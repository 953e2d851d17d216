"""Runs a program of the engine for a command. The program needs torch, which the command never imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping


def run_engine_program(module: str, *arguments: str, environment: Mapping[str, str]) -> int:
    """Run ``python -m module`` and return its exit code. Raises OSError if it cannot be started.

    The program has its own session: Ctrl-C reaches only this process, which then kills the program.

    Args:
        module: of the engine.
        arguments: of the program.
        environment: variables in addition to those of this process, whose own values take precedence.
    """
    command = [sys.executable, "-m", module, *arguments]
    interrupts: list[int] = []
    # While Popen starts the program, a KeyboardInterrupt would leave it running. A signal mask would not prevent that,
    # because other threads receive signals, too.
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        with subprocess.Popen(command, env={**environment, **os.environ}, start_new_session=True) as program:
            try:
                signal.signal(signal.SIGINT, handler)
                if interrupts:
                    raise KeyboardInterrupt
                return program.wait()
            except BaseException:
                program.kill()
                raise
    finally:
        signal.signal(signal.SIGINT, handler)

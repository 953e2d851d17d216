"""Starts a ``sonant serve`` process for a benchmark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120.0
START_TIMEOUT_S = 1800.0
"""Start timeout. A large checkpoint may have to be downloaded, and its kernels compiled."""


@contextmanager
def running_server(
    config: Path,
    log: Path,
    *flags: str,
    cores: Collection[int] | None = None,
    program: Sequence[str] = ("server.cli",),
    checkout: Path = ROOT,
) -> Iterator[tuple[str, float]]:
    """Run a server on a free port. Yield its address and the seconds until it was ready.

    log: file for its output. cores: CPU affinity. program: the module to run, and arguments that precede ``serve``.
    checkout: the folder of the sources.
    """
    command = [sys.executable, "-m", *program, "serve", "--config", str(config), "--port", "0", *flags]
    began = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=checkout, stdout=output, stderr=output)
    try:
        if cores is not None:
            os.sched_setaffinity(process.pid, cores)
        address = _wait_for(log, r"on (http://[^\s\"]+)", process)
        _wait_for(log, "(is ready on)", process)
        with httpx.Client(base_url=address) as client:
            client.get("/ready").raise_for_status()
        yield address, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def supervisor_process() -> psutil.Process:
    """Return the supervisor process of the server that this process has started."""
    return next(each for each in psutil.Process().children() if "serve" in each.cmdline())


def _wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Wait until the log matches ``pattern`` and return its group. Raises SystemExit when the server does not start."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (match := re.search(pattern, log.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the server did not start; its log:\n{log.read_text()}")
        time.sleep(0.01)
    return match.group(1)

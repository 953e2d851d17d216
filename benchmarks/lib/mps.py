"""Runs a module with NVIDIA's MPS daemon, so that processes use the GPU concurrently instead of taking turns.

    python -m benchmarks.lib.mps MODULE ARGS...

Starts the daemon with its files in a temporary folder, runs ``python -m MODULE ARGS`` with the environment variables
that let CUDA find it, and always stops it at the end. The exit status is that of the module.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = "nvidia-cuda-mps-control"
_TIMEOUT_S = 30.0


@contextmanager
def daemon() -> Iterator[dict[str, str]]:
    """Run a separate MPS daemon and yield the environment in which CUDA uses it.

    Raises SystemExit when the daemon cannot be started.
    """
    control = shutil.which(_PROGRAM)
    if control is None:
        raise SystemExit(f"{_PROGRAM} was not found on PATH; it is part of the NVIDIA driver")
    with tempfile.TemporaryDirectory(prefix="mps-", ignore_cleanup_errors=True) as folder:
        folders = {"CUDA_MPS_PIPE_DIRECTORY": "pipe", "CUDA_MPS_LOG_DIRECTORY": "log"}
        environment = os.environ | {name: str(Path(folder, subfolder)) for name, subfolder in folders.items()}
        for subfolder in folders.values():
            Path(folder, subfolder).mkdir()
        _start(control, environment, Path(folder, "output"))
        try:
            yield environment
        finally:
            _quit(control, environment)


def _start(control: str, environment: dict[str, str], log: Path) -> None:
    """Start the daemon. log: a file for its output, because it would keep a pipe open. Raises SystemExit."""
    with log.open("w") as file:
        started = subprocess.run(
            [control, "-d"], env=environment, stdout=file, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S
        )
    if started.returncode:
        raise SystemExit(f"{_PROGRAM} -d exited with status {started.returncode}: {log.read_text().strip()}")


def _quit(control: str, environment: dict[str, str]) -> None:
    """Stop the daemon, or print a warning if it does not stop."""
    try:
        subprocess.run([control], input="quit\n", env=environment, text=True, check=True, timeout=_TIMEOUT_S)
    except subprocess.SubprocessError as error:
        print(f"the MPS daemon may still be running: {error}", file=sys.stderr)


def run(command: list[str], environment: dict[str, str]) -> int:
    """Run the command and return its exit status. The command is terminated if this function is interrupted."""
    process = subprocess.Popen(command, env=environment)
    try:
        return process.wait()
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Start the daemon, run the module and stop the daemon."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exit through the context manager, which stops the daemon
    with daemon() as environment:
        status = run([sys.executable, "-m", *sys.argv[1:]], environment)
    raise SystemExit(status)


if __name__ == "__main__":
    main()

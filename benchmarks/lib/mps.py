"""A module beside NVIDIA's MPS daemon, so that processes share the GPU at one time instead of taking turns.

    python -m benchmarks.lib.mps MODULE ARGS...

Starts the daemon with its files in a temporary folder, runs ``python -m MODULE ARGS`` with what lets CUDA find it, and
ends it, whatever becomes of the module, whose exit status this is.
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
_PATIENCE_S = 30.0


@contextmanager
def daemon() -> Iterator[dict[str, str]]:
    """A daemon of its own: the environment in which CUDA uses it. Raises SystemExit where it cannot be started."""
    control = shutil.which(_PROGRAM)
    if control is None:
        raise SystemExit(f"there is no {_PROGRAM} here: it comes with NVIDIA's driver")
    with tempfile.TemporaryDirectory(prefix="mps-", ignore_cleanup_errors=True) as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": "pipe", "CUDA_MPS_LOG_DIRECTORY": "log"}
        environment = os.environ | {name: str(Path(folder, under)) for name, under in names.items()}
        for under in names.values():
            Path(folder, under).mkdir()
        _start(control, environment, Path(folder, "said"))
        try:
            yield environment
        finally:
            _quit(control, environment)


def _start(control: str, environment: dict[str, str], said: Path) -> None:
    """Start the daemon. said: a file for what it prints, as it would keep a pipe open. Raises SystemExit."""
    with said.open("w") as file:
        started = subprocess.run(
            [control, "-d"], env=environment, stdout=file, stderr=subprocess.STDOUT, timeout=_PATIENCE_S
        )
    if started.returncode:
        raise SystemExit(f"{_PROGRAM} -d has ended with {started.returncode}: {said.read_text().strip()}")


def _quit(control: str, environment: dict[str, str]) -> None:
    """End the daemon; one that does not end is told of."""
    try:
        subprocess.run([control], input="quit\n", env=environment, text=True, check=True, timeout=_PATIENCE_S)
    except subprocess.SubprocessError as error:
        print(f"the MPS daemon may still run: {error}", file=sys.stderr)


def run(command: list[str], environment: dict[str, str]) -> int:
    """The command's exit status. It ends before this does, whatever ends this."""
    process = subprocess.Popen(command, env=environment)
    try:
        return process.wait()
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Start, run, end."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the daemon ends, too
    with daemon() as environment:
        status = run([sys.executable, "-m", *sys.argv[1:]], environment)
    raise SystemExit(status)


if __name__ == "__main__":
    main()

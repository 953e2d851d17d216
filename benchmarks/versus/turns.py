"""Times several processes in turn. Each process holds one model and runs it on request.

The parent starts one ``Runner`` per process and calls their ``turn`` one after the other. In the process, ``serve``
takes one turn per line on standard input, and exits at end of file. This module uses only the standard library,
because the reference's process does not have this project's environment.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 600.0
"""Timeout for loading a model, and for one turn."""
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Job:
    """The model that a process loads, and its work in each turn.

    kind: "talker", "engine", "reference" or "code2wav". folder: a checkpoint. dtype: of the reference.
    weights: format of this engine's weights.
    text, speaker, language, frames: the utterance, synthesized greedily and limited to ``frames`` frames.
    """

    kind: str
    folder: str
    threads: int
    dtype: str = "float32"
    weights: str = "exact"
    text: str = ""
    speaker: str = ""
    language: str = ""
    frames: int = 0


@dataclass
class Turn:
    """The result of one turn.

    seconds: one or more measurements by name. codes: the generated frames, if they can be compared.
    """

    seconds: dict[str, list[float]]
    codes: list[list[int]] = field(default_factory=list)


Load = Callable[[Job], AbstractContextManager[Callable[[], Turn]]]
"""Loads and warms up the model of a job. Yields a function that takes one turn, and frees the model on exit."""


def serve(kinds: Mapping[str, Load]) -> None:
    """Run the job on the command line: one turn per line of input, then report the peak memory."""
    job = Job(**json.loads(sys.argv[1]))
    with os.fdopen(int(sys.argv[2]), "w") as results:
        with kinds[job.kind](job) as take_turn:
            _send(results, "ready")
            for _ in sys.stdin:
                _send(results, asdict(take_turn()))
        _send(results, _peak_bytes())


def _send(results: TextIO, value: Any) -> None:
    print(json.dumps(value), file=results, flush=True)


def _peak_bytes() -> int:
    """Return the peak resident memory in bytes of this process or of any child that has ended."""
    scopes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(each).ru_maxrss for each in scopes) * _MAXRSS_UNIT


class Runner:
    """The parent's handle of one process. module: run as with ``python -m``. log: file for its output."""

    def __init__(self, python: str, module: str, job: Job, log: Path) -> None:
        self._log = log
        # Results use a separate pipe because libraries print to standard output.
        read_fd, write_fd = os.pipe()
        self._results = os.fdopen(read_fd)
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [python, "-m", module, json.dumps(asdict(job)), str(write_fd)],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": str(job.threads)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[write_fd],
                text=True,
            )
        os.close(write_fd)

    def wait_ready(self) -> None:
        """Wait until its model is loaded."""
        self._receive()

    def turn(self) -> Turn:
        """Take one turn. The other processes are idle during it."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Turn(**self._receive())

    def finish(self) -> int:
        """End the process. Return its peak memory in bytes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        peak: int = self._receive()
        self._process.wait(_TIMEOUT_S)
        return peak

    def kill(self) -> None:
        """Kill the process if it is still running."""
        self._process.kill()
        self._process.wait()
        self._results.close()

    def _receive(self) -> Any:
        watchdog = threading.Timer(_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            line = self._results.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise SystemExit(
                f"a process exited or took more than {_TIMEOUT_S:.0f} s; end of its log:\n{self._log_end()}"
            )
        return json.loads(line)

    def _log_end(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

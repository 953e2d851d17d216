"""Two or more processes that are timed in turn: each holds one model and runs it when told to.

The parent starts a ``Runner`` a process and calls ``turn`` on one after the other. In the process, ``serve`` answers:
a line on standard input asks for a turn, the end of input ends the process. Needs the standard library alone, because
not every process has this project's environment.
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
_PATIENCE_S = 600.0
"""For a model to load, and for one turn."""
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Job:
    """What one process loads and what it does in each turn.

    kind: "talker", "engine", "reference" or "code2wav"; folder: a checkpoint; dtype: the reference's number type.
    text, speaker, language, frames: the utterance, spoken greedily and cut after ``frames`` frames.
    """

    kind: str
    folder: str
    threads: int
    dtype: str = "float32"
    text: str = ""
    speaker: str = ""
    language: str = ""
    frames: int = 0


@dataclass
class Turn:
    """seconds: what was measured, by name, each once or more; codes: the frames made, where that can be compared."""

    seconds: dict[str, list[float]]
    codes: list[list[int]] = field(default_factory=list)


Load = Callable[[Job], AbstractContextManager[Callable[[], Turn]]]
"""Loads what a job names, having used it once. What it gives takes one turn; leaving it lets go of what it loaded."""


def serve(kinds: Mapping[str, Load]) -> None:
    """In the process: the job of the command line, a turn for each line of input, then the memory that took."""
    job = Job(**json.loads(sys.argv[1]))
    with os.fdopen(int(sys.argv[2]), "w") as answers:
        with kinds[job.kind](job) as take:
            _say(answers, "ready")
            for _ in sys.stdin:
                _say(answers, asdict(take()))
        _say(answers, _peak_bytes())


def _say(answers: TextIO, value: Any) -> None:
    print(json.dumps(value), file=answers, flush=True)


def _peak_bytes() -> int:
    """The most memory this process had resident, or one that it started and that has ended."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(each).ru_maxrss for each in who) * _MAXRSS_UNIT


class Runner:
    """The parent's side of one process. module: what runs, as in ``python -m``; log: what it prints."""

    def __init__(self, python: str, module: str, job: Job, log: Path) -> None:
        self._log = log
        # Answers have a pipe of their own: libraries print on standard output.
        answers, answer = os.pipe()
        self._answers = os.fdopen(answers)
        with log.open("w") as printed:
            self._process = subprocess.Popen(
                [python, "-m", module, json.dumps(asdict(job)), str(answer)],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": str(job.threads)},
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                pass_fds=[answer],
                text=True,
            )
        os.close(answer)

    def wait_ready(self) -> None:
        """Until its model is loaded."""
        self._listen()

    def turn(self) -> Turn:
        """One turn, while the other processes wait."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Turn(**self._listen())

    def finish(self) -> int:
        """End the process; the most memory it took, in bytes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        peak: int = self._listen()
        self._process.wait(_PATIENCE_S)
        return peak

    def kill(self) -> None:
        """End the process at once, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._answers.close()

    def _listen(self) -> Any:
        watchdog = threading.Timer(_PATIENCE_S, self._process.kill)
        watchdog.start()
        try:
            line = self._answers.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise SystemExit(f"a process ended or took more than {_PATIENCE_S:.0f} s; its last words:\n{self._tail()}")
        return json.loads(line)

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

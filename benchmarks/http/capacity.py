"""Finds how many real-time clients a running server sustains: the largest number without any underrun.

    python -m benchmarks.http.capacity --server URL [--first 64] [--most 4096] [--limit 200] [options of sonant bench]

Each real-time client plays one sentence after the other without a pause (``sonant bench --listeners``), so N clients
are N concurrent real-time streams. Each number is tried for ``--trial-seconds``. The number grows by half until some
client has underruns of more than 5 ms in total; then the search bisects. A number is held if every request was
answered and no client had such an underrun. With ``--wait`` clients start to play that many seconds after the first
sample, otherwise at once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.lib.serving import ROOT

TOLERATED = 0.005
"""Total seconds of underruns per response that are tolerated."""
_STEP = 1.5
_CLIENT_BUSY = 0.8
_GRACE_S = 120.0
"""Extra time for a trial, because responses that have started are read to their end."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of trying ``listeners`` real-time clients.

    dry: number of responses with underruns. failed: number of requests that were not answered.
    """

    listeners: int
    answered: int
    failed: int
    dry: int
    worst_ms: float
    first_byte_ms: float
    audio_a_second: float
    client_busy: float

    @property
    def held(self) -> bool:
        """Whether all clients were served in real time."""
        return self.answered > 0 and self.failed == 0 and self.dry == 0

    def __str__(self) -> str:
        told = (
            f"{self.listeners:5d} listeners: {'held' if self.held else 'NOT held'}, {self.answered} answers, "
            f"{self.dry} ran dry (worst {self.worst_ms:.0f} ms), first byte p50 {self.first_byte_ms:.0f} ms, "
            f"{self.audio_a_second:.0f} s of audio a second"
        )
        if self.failed:
            told += f", {self.failed} requests failed"
        return told + (f", client busy {self.client_busy:.0%}" if self.client_busy > _CLIENT_BUSY else "")


def largest(holds: Callable[[int], bool], first: int, most: int, precision: float) -> int:
    """Return the largest number up to ``most`` for which ``holds`` is true, or 0 if there is none.

    The search stops early when ``holds`` raises StopTrials.
    precision: the search ends when the smallest failing number is at most this fraction larger.
    """
    low, high = 0, most + 1
    number = min(first, most)
    try:
        while number > low and high > max(low + 1, (1 + precision) * low):
            if holds(number):
                low = number
            else:
                high = number
            number = min(most, round(_STEP * low)) if high > most and low else (low + high) // 2
    except StopTrials:
        pass
    return low


class StopTrials(Exception):
    """There is no time for another trial."""


def trial_of(load: dict[str, Any], *, buffered: bool) -> Trial:
    """Return the trial for one load in the JSON report of ``sonant bench``."""
    field = "buffered_underrun" if buffered else "underrun"
    lacks = [each[field] for each in load["each"] if each["outcome"] == "ok"]
    return Trial(
        listeners=load["listeners"],
        answered=len(lacks),
        failed=load["asked"] - len(lacks),
        dry=sum(lack > TOLERATED for lack in lacks),
        worst_ms=1000 * max(lacks, default=0.0),
        first_byte_ms=load["first_byte_ms"]["p50"] or 0.0,
        audio_a_second=load["audio_seconds_a_second"],
        client_busy=load["client_busy"],
    )


class Trials:
    """Runs trials against ``server`` for up to ``limit`` seconds, and prints each result."""

    def __init__(self, server: str, options: Sequence[str], *, seconds: float, wait: float, limit: float) -> None:
        self._server, self._options = server, list(options)
        self._seconds, self._wait = seconds, wait
        self._patience = seconds + _GRACE_S
        self._ends = time.monotonic() + limit
        self.done: list[Trial] = []

    def __call__(self, listeners: int) -> bool:
        """Return whether the server sustains ``listeners`` real-time clients. Raises StopTrials."""
        if time.monotonic() > self._ends:
            raise StopTrials
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "bench.json")
            command = [sys.executable, "-m", "server.cli", "bench", "--server", self._server, "--json", str(file)]
            command += ["--listeners", str(listeners), "--seconds", str(self._seconds), "--buffer", str(self._wait)]
            try:
                subprocess.run([*command, *self._options], cwd=ROOT, capture_output=True, timeout=self._patience)
            except subprocess.TimeoutExpired:
                print(f"{listeners:5d} listeners: no end in {self._patience:.0f} s, no more are tried", flush=True)
                raise StopTrials from None
            if not file.exists():
                raise SystemExit("sonant bench has measured nothing; run it alone to see why")
            [load] = json.loads(file.read_text())["loads"]
        self.done.append(trial_of(load, buffered=self._wait > 0))
        print(self.done[-1], flush=True)
        return self.done[-1].held


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a search."""
    parser.add_argument("--first", type=int, default=64, help="how many listeners are tried first")
    parser.add_argument("--most", type=int, default=4096)
    parser.add_argument("--trial-seconds", type=float, default=12.0, help="of each trial")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds from the first sample to playing it")
    parser.add_argument("--precision", type=float, default=0.08)
    parser.add_argument("--limit", type=float, default=200.0, help="seconds after which no trial begins")


def search(server: str, given: argparse.Namespace, options: Sequence[str]) -> dict[str, Any]:
    """Search the capacity, print the result and return it."""
    trials = Trials(server, options, seconds=given.trial_seconds, wait=given.wait, limit=given.limit)
    most = largest(trials, given.first, given.most, given.precision)
    failing = min((each.listeners for each in trials.done if not each.held and each.listeners > most), default=None)
    beyond = f"{failing} were not" if failing else "more were not tried"
    print(f"{most} listeners are held in real time; {beyond}")
    return {"held": most, "not_held": failing, "wait": given.wait, "trials": [asdict(each) for each in trials.done]}


def main() -> None:
    """Search the capacity of a running server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--server", default="http://127.0.0.1:8000")
    parser.add_argument("--json", type=Path, help="a file for every trial")
    add_options(parser)
    given, options = parser.parse_known_args()
    found = search(given.server, given, options)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""How many listeners a running server keeps supplied: the most of whom none ever runs out of audio.

    python -m benchmarks.http.capacity --server URL [--first 64] [--most 4096] [--limit 200] [options of sonant bench]

Each listener hears one sentence after the other, all the time (``sonant bench --listeners``), so N of them are N
streams in real time. Numbers are tried for ``--trial-seconds`` each, half as many more each time until some listener
runs dry for more than 5 ms, then between the two; a number is held if every request was answered, and none ran dry.
With ``--wait`` they begin to play so many seconds after the first sample, otherwise at once.
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
"""Seconds without audio, in all, that count as none."""
_STEP = 1.5
_CLIENT_BUSY = 0.8
_GRACE_S = 120.0
"""A trial may take so much longer than it lasts: answers that have begun are heard to their end."""


@dataclass(frozen=True, slots=True)
class Trial:
    """So many listeners. dry: how many answers ran dry; failed: how many requests were not answered."""

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
        """Whether all of them were supplied all the time."""
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
    """The largest number found that ``holds``, up to ``most``; 0 if none does. Stops when ``holds`` raises StopTrials.

    precision: how far, as a share, the next larger number that was tried may be.
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
    """There is no time for another one."""


def trial_of(load: dict[str, Any], *, buffered: bool) -> Trial:
    """What ``sonant bench`` found of one load."""
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
    """Tries numbers at ``server`` until ``limit`` seconds are over, and prints each."""

    def __init__(self, server: str, options: Sequence[str], *, seconds: float, wait: float, limit: float) -> None:
        self._server, self._options = server, list(options)
        self._seconds, self._wait = seconds, wait
        self._patience = seconds + _GRACE_S
        self._ends = time.monotonic() + limit
        self.done: list[Trial] = []

    def __call__(self, listeners: int) -> bool:
        """Whether so many are held. Raises StopTrials."""
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
    """What a search is told."""
    parser.add_argument("--first", type=int, default=64, help="how many listeners are tried first")
    parser.add_argument("--most", type=int, default=4096)
    parser.add_argument("--trial-seconds", type=float, default=12.0, help="of each trial")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds from the first sample to playing it")
    parser.add_argument("--precision", type=float, default=0.08)
    parser.add_argument("--limit", type=float, default=200.0, help="seconds after which no trial begins")


def search(server: str, given: argparse.Namespace, options: Sequence[str]) -> dict[str, Any]:
    """Search, print, and return what was found."""
    trials = Trials(server, options, seconds=given.trial_seconds, wait=given.wait, limit=given.limit)
    most = largest(trials, given.first, given.most, given.precision)
    failing = min((each.listeners for each in trials.done if not each.held and each.listeners > most), default=None)
    beyond = f"{failing} were not" if failing else "more were not tried"
    print(f"{most} listeners are held in real time; {beyond}")
    return {"held": most, "not_held": failing, "wait": given.wait, "trials": [asdict(each) for each in trials.done]}


def main() -> None:
    """Search at a server that runs."""
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

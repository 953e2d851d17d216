"""Finds how many real-time clients a running server sustains: the largest number without any underrun.

    python -m benchmarks.http.capacity --server URL [--first 64] [--most 4096] [--limit 200] [options of sonant bench]

Each real-time client plays one sentence after the other without a pause (``sonant bench --listeners``), so N clients
are N concurrent real-time streams. Each number is tried for ``--trial-seconds``. The number grows by half until some
client has underruns of more than 5 ms in total; then the search bisects. A number is sustained if every request was
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

TOLERATED_SECONDS = 0.005
"""Total seconds of underruns per response that are tolerated."""
_STEP = 1.5
_CLIENT_BUSY = 0.8
_GRACE_S = 120.0
"""Extra time for a trial, because responses that have started are read to their end."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of trying ``clients`` real-time clients.

    completed: number of complete responses. with_underruns: number of those with underruns. failed: the others.
    """

    clients: int
    completed: int
    failed: int
    with_underruns: int
    worst_ms: float
    first_byte_ms: float
    audio_per_second: float
    client_busy: float

    @property
    def sustained(self) -> bool:
        """Whether all clients were served in real time."""
        return self.completed > 0 and self.failed == 0 and self.with_underruns == 0

    def __str__(self) -> str:
        text = (
            f"{self.clients:5d} clients: {'sustained' if self.sustained else 'NOT sustained'}, "
            f"{self.completed} responses, {self.with_underruns} with underruns (worst {self.worst_ms:.0f} ms), "
            f"first byte p50 {self.first_byte_ms:.0f} ms, {self.audio_per_second:.0f} s of audio per second"
        )
        if self.failed:
            text += f", {self.failed} requests failed"
        return text + (f", client busy {self.client_busy:.0%}" if self.client_busy > _CLIENT_BUSY else "")


def largest(sustains: Callable[[int], bool], first: int, most: int, precision: float) -> int:
    """Return the largest number up to ``most`` for which ``sustains`` is true, or 0 if there is none.

    The search stops early when ``sustains`` raises StopSearch.
    precision: the search ends when the smallest failing number is at most this fraction larger.
    """
    low, high = 0, most + 1
    number = min(first, most)
    try:
        while number > low and high > max(low + 1, (1 + precision) * low):
            if sustains(number):
                low = number
            else:
                high = number
            number = min(most, round(_STEP * low)) if high > most and low else (low + high) // 2
    except StopSearch:
        pass
    return low


class StopSearch(Exception):
    """There is no time for another trial."""


def trial_of(load: dict[str, Any], *, buffered: bool) -> Trial:
    """Return the trial for one load in the JSON report of ``sonant bench``."""
    field = "buffered_underrun" if buffered else "underrun"
    underruns = [each[field] for each in load["each"] if each["outcome"] == "ok"]
    return Trial(
        clients=load["listeners"],
        completed=len(underruns),
        failed=load["asked"] - len(underruns),
        with_underruns=sum(underrun > TOLERATED_SECONDS for underrun in underruns),
        worst_ms=1000 * max(underruns, default=0.0),
        first_byte_ms=load["first_byte_ms"]["p50"] or 0.0,
        audio_per_second=load["audio_seconds_a_second"],
        client_busy=load["client_busy"],
    )


class Trials:
    """Runs trials against ``server`` for up to ``limit`` seconds, and prints each result."""

    def __init__(self, server: str, bench_options: Sequence[str], *, seconds: float, wait: float, limit: float) -> None:
        self._server, self._options = server, list(bench_options)
        self._seconds, self._wait = seconds, wait
        self._timeout = seconds + _GRACE_S
        self._deadline = time.monotonic() + limit
        self.results: list[Trial] = []

    def __call__(self, clients: int) -> bool:
        """Return whether the server sustains this number of real-time clients. Raises StopSearch."""
        if time.monotonic() > self._deadline:
            raise StopSearch
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "bench.json")
            command = [sys.executable, "-m", "server.cli", "bench", "--server", self._server, "--json", str(file)]
            command += ["--listeners", str(clients), "--seconds", str(self._seconds), "--buffer", str(self._wait)]
            try:
                subprocess.run([*command, *self._options], cwd=ROOT, capture_output=True, timeout=self._timeout)
            except subprocess.TimeoutExpired:
                print(f"{clients:5d} clients: not finished within {self._timeout:.0f} s; the search ends", flush=True)
                raise StopSearch from None
            if not file.exists():
                raise SystemExit("sonant bench wrote no report; run it alone to see why")
            [load] = json.loads(file.read_text())["loads"]
        self.results.append(trial_of(load, buffered=self._wait > 0))
        print(self.results[-1], flush=True)
        return self.results[-1].sustained


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a search."""
    parser.add_argument("--first", type=int, default=64, help="first number of real-time clients to try")
    parser.add_argument("--most", type=int, default=4096, help="largest number of real-time clients to try")
    parser.add_argument("--trial-seconds", type=float, default=12.0, help="length of each trial")
    parser.add_argument(
        "--wait", type=float, default=0.0, help="seconds that a client buffers before it starts to play"
    )
    parser.add_argument("--precision", type=float, default=0.08, help="relative precision at which the search ends")
    parser.add_argument("--limit", type=float, default=200.0, help="seconds after which no trial starts")


def search(server: str, args: argparse.Namespace, bench_options: Sequence[str]) -> dict[str, Any]:
    """Search the capacity, print the result and return it."""
    trials = Trials(server, bench_options, seconds=args.trial_seconds, wait=args.wait, limit=args.limit)
    most = largest(trials, args.first, args.most, args.precision)
    not_sustained = min(
        (each.clients for each in trials.results if not each.sustained and each.clients > most), default=None
    )
    beyond = f"{not_sustained} are not" if not_sustained else "more were not tried"
    print(f"{most} real-time clients are sustained; {beyond}")
    return {
        "clients": most,
        "not_sustained": not_sustained,
        "wait": args.wait,
        "trials": [asdict(each) for each in trials.results],
    }


def main() -> None:
    """Search the capacity of a running server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--server", default="http://127.0.0.1:8000")
    parser.add_argument("--json", type=Path, help="write the result of every trial to this file")
    add_options(parser)
    args, bench_options = parser.parse_known_args()
    result = search(args.server, args, bench_options)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Soak test: real-time clients next to adversarial clients. Measures underruns, and resources the server does not free.

    python -m benchmarks.http.soak [--rounds 5] [--minutes 2] [--clients 200] [--listeners 2] [--speaking 2] [--json
    FILE] python -m benchmarks.http.soak --parts hostile --rounds 6 --minutes 10

Starts one server (``configs/pocket.yaml``). A real-time client (listener) requests one sentence after the other and
plays each from its first audible sample, with a buffer of 100 ms. Each round has up to three parts of ``--minutes``
each, interleaved so that other load on the machine affects all of them equally: the listeners alone; with
``--speaking`` additional listeners, as a baseline for the cost of that many speech requests; and with
``benchmarks.http.adversarial``. Prints for each part:

- first sound: median and 99th percentile of the time to the first audible sample;
- late: how many sentences had an underrun, and by how much the latest sample missed its deadline;
- resident memory of each process after each round, CPU time, maximum connections, files and threads.

After the last round it waits until the server is idle, and prints the resources in use before and after the test.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cpu.pocket import TEXTS, Heard, listen
from benchmarks.lib.report import machine
from benchmarks.lib.resources import Held, Server
from benchmarks.lib.serving import PATIENCE_S, ROOT, served

PARTS = ("alone", "listeners", "hostile")
IN_HAND_S = 0.1
"""Buffer of the player: see docs/reference/performance-cpu.md, "Pocket checkpoint"."""
_SAMPLE_S = 5.0
_WARM_UP_S = 10.0


@dataclass
class Part:
    """The results of one part over all rounds: what the listeners received, and the server's resource usage."""

    heard: list[Heard] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    rounds: list[list[Held]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def figures(self) -> dict[str, Any]:
        """Return the metrics of the part: milliseconds, MiB, counts."""
        firsts = sorted(1000 * each.first for each in self.heard)
        late = [1000 * (each.late - IN_HAND_S) for each in self.heard]
        held = [sample for samples in self.rounds for sample in samples]
        return {
            "sentences": len(self.heard),
            "failed": len(self.failed),
            "first sound, median, ms": round(statistics.median(firsts)),
            "first sound, 99th percentile, ms": round(firsts[int(0.99 * (len(firsts) - 1))]),
            "late, a round": [sum(each > 0 for each in late[begin:end]) for begin, end in pairwise([0, *self.ends])],
            "latest, ms": round(max(late)),
            "HTTP process, MiB a round": [round(samples[-1].resident[0]) for samples in self.rounds],
            "engine process, MiB a round": [round(samples[-1].resident[1]) for samples in self.rounds],
            "HTTP process, % of a core": _work(self.rounds, 0, self.seconds),
            "engine process, % of a core": _work(self.rounds, 1, self.seconds),
            "most connections": max(sample.connections for sample in held),
            "most files": max(sample.files for sample in held),
            "most threads": max(sample.threads for sample in held),
        }


def _work(rounds: list[list[Held]], process: int, seconds: float) -> float:
    worked = sum(samples[-1].worked[process] - samples[0].worked[process] for samples in rounds)
    return round(100 * worked / seconds, 1)


class Soak:
    """Runs the listeners and the other clients."""

    def __init__(self, server: Server, given: argparse.Namespace) -> None:
        self._server, self._given = server, given
        self._seeds = 0
        self.parts = {name: Part() for name in given.parts}
        self.deeds: Counter[str] = Counter()

    async def run(self) -> dict[str, Any]:
        """Run all rounds and return the results."""
        seconds = 60 * self._given.minutes
        await self._listen(Part(), _WARM_UP_S)
        before = await self._server.at_rest()
        for number in range(self._given.rounds):
            if "alone" in self.parts:
                await self._listen(self.parts["alone"], seconds)
            if "listeners" in self.parts:
                await asyncio.gather(
                    self._listen(self.parts["listeners"], seconds),
                    self._listen(Part(), seconds, self._given.speaking),
                )
            if "hostile" in self.parts:
                async with self._hostile(number, seconds):
                    await self._listen(self.parts["hostile"], seconds)
            print(f"round {number + 1} of {self._given.rounds}: {json.dumps(self._figures())}", file=sys.stderr)
        after = await self._server.at_rest()
        return {
            "machine": machine(),
            "parts": self._figures(),
            "hostile": dict(self.deeds),
            "failed": [failure for part in self.parts.values() for failure in part.failed],
            "at rest": {"before": before, "after": after},
            "heard": {name: [asdict(each) for each in part.heard] for name, part in self.parts.items()},
            "held": {
                name: [asdict(each) for samples in part.rounds for each in samples] for name, part in self.parts.items()
            },
        }

    def _figures(self) -> dict[str, Any]:
        return {name: part.figures() for name, part in self.parts.items()}

    async def _listen(self, part: Part, seconds: float, listeners: int | None = None) -> None:
        """Run listeners for ``seconds``, and sample the server's resource usage."""
        end = time.monotonic() + seconds
        samples: list[Held] = [self._server.held()]
        part.rounds.append(samples)
        part.seconds -= time.monotonic()

        async def one() -> None:
            while time.monotonic() < end:
                self._seeds += 1
                asked = time.monotonic()
                try:
                    heard = await listen(client, TEXTS[self._seeds % len(TEXTS)], self._seeds)
                except httpx.HTTPError as error:
                    part.failed.append(repr(error))
                    continue
                part.heard.append(heard)
                await asyncio.sleep(asked + heard.first + heard.audio - time.monotonic())

        async def watch() -> None:
            while True:
                samples.append(self._server.held())
                await asyncio.sleep(_SAMPLE_S)

        async with httpx.AsyncClient(base_url=self._server.address, timeout=PATIENCE_S) as client:
            watching = asyncio.create_task(watch())
            await asyncio.gather(*(one() for _ in range(listeners or self._given.listeners)))
            watching.cancel()
        samples.append(self._server.held())
        part.ends.append(len(part.heard))
        part.seconds += time.monotonic()

    @asynccontextmanager
    async def _hostile(self, seed: int, seconds: float) -> AsyncIterator[None]:
        """Run adversarial clients in another process."""
        asked = {"clients": self._given.clients, "seconds": seconds, "speaking": self._given.speaking, "seed": seed}
        options = [f"--{name}={value}" for name, value in asked.items()]
        command = (sys.executable, "-m", "benchmarks.http.adversarial", self._server.address, *options)
        process: Process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
        try:
            yield
            printed, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        finally:
            if process.returncode is None:
                process.kill()
        self.deeds.update(json.loads(printed))


def table(found: dict[str, Any]) -> str:
    """Return the results as a Markdown table."""
    parts = found["parts"]
    rows = ["| |" + "".join(f" {name} |" for name in parts), "|---|" + "---|" * len(parts)]
    for figure in next(iter(parts.values())):
        rows.append(f"| {figure} |" + "".join(f" {_cell(part[figure])} |" for part in parts.values()))
    done = ", ".join(f"{count} {name}" for name, count in sorted(found["hostile"].items()))
    rest = (f"{when}: {held}" for when, held in found["at rest"].items())
    return "\n".join([*rows, f"hostile: {done}", "at rest", *rest])


def _cell(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> None:
    """Start a server, run the soak test and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=2, help="of each part of a round")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="who is beside the listeners")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--listeners", type=int, default=2)
    parser.add_argument("--speaking", type=int, default=2, help="hostile clients that have speech made at a time")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--json", type=Path, help="a file for everything that was measured")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(given.config, Path(folder, "log")) as (address, _):
        found = asyncio.run(Soak(Server(address), given).run())
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

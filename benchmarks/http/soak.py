"""Soak test: real-time clients next to adversarial clients. Measures underruns, and resources the server does not free.

    python -m benchmarks.http.soak [--rounds 5] [--minutes 2] [--clients 200] [--listeners 2] [--speaking 2]
        [--json FILE]
    python -m benchmarks.http.soak --parts adversarial --rounds 6 --minutes 10

Starts one server (``configs/pocket.yaml``). A real-time client requests one sentence after the other and plays
each from its first audible sample, with a buffer of 100 ms. Each round has up to three parts of ``--minutes`` each,
interleaved so that other load on the machine affects all of them equally: ``--listeners`` real-time clients alone; with
``--speaking`` more of them (listeners), as a baseline for the cost of that many speech requests; and with
``benchmarks.http.adversarial``. Prints for each part:

- first audio: median and 99th percentile of the time to the first audible sample;
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

from benchmarks.cpu.pocket import TEXTS, ClientTimes, play_sentence
from benchmarks.lib.report import machine
from benchmarks.lib.resources import ResourceUsage, Server
from benchmarks.lib.serving import ROOT, TIMEOUT_S, running_server

PARTS = ("alone", "listeners", "adversarial")
BUFFER_S = 0.1
"""Buffer of the player: see docs/reference/performance-cpu.md, "Pocket checkpoint"."""
_SAMPLE_S = 5.0
_WARM_UP_S = 10.0
_RETRY_S = 0.5


@dataclass
class Part:
    """The results of one part over all rounds: what the real-time clients received, and the server's resource usage."""

    times: list[ClientTimes] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    rounds: list[list[ResourceUsage]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def figures(self) -> dict[str, Any]:
        """Return the metrics of the part: milliseconds, MiB, counts."""
        firsts = sorted(1000 * each.first for each in self.times)
        late = [1000 * (each.late - BUFFER_S) for each in self.times]
        samples = [sample for round_samples in self.rounds for sample in round_samples]
        return {
            "sentences": len(self.times),
            "failed": len(self.failed),
            "first audio, median, ms": round(statistics.median(firsts)),
            "first audio, 99th percentile, ms": round(firsts[int(0.99 * (len(firsts) - 1))]),
            "late, per round": [sum(each > 0 for each in late[begin:end]) for begin, end in pairwise([0, *self.ends])],
            "latest, ms": round(max(late)),
            "HTTP process, MiB per round": [round(each[-1].resident_mib[0]) for each in self.rounds],
            "engine process, MiB per round": [round(each[-1].resident_mib[1]) for each in self.rounds],
            "HTTP process, % of one core": _cpu_percent(self.rounds, 0, self.seconds),
            "engine process, % of one core": _cpu_percent(self.rounds, 1, self.seconds),
            "connections, maximum": max(sample.connections for sample in samples),
            "open files, maximum": max(sample.files for sample in samples),
            "threads, maximum": max(sample.threads for sample in samples),
        }


def _cpu_percent(rounds: list[list[ResourceUsage]], process: int, seconds: float) -> float:
    cpu_seconds = sum(samples[-1].cpu_seconds[process] - samples[0].cpu_seconds[process] for samples in rounds)
    return round(100 * cpu_seconds / seconds, 1)


class Soak:
    """Runs the real-time clients and the other clients."""

    def __init__(self, server: Server, args: argparse.Namespace) -> None:
        self._server, self._args = server, args
        self._seeds = 0
        self.parts = {name: Part() for name in args.parts}
        self.attacks: Counter[str] = Counter()

    async def run(self) -> dict[str, Any]:
        """Run all rounds and return the results."""
        seconds = 60 * self._args.minutes
        await self._run_clients(Part(), _WARM_UP_S)
        before = await self._server.wait_until_idle()
        for number in range(self._args.rounds):
            if "alone" in self.parts:
                await self._run_clients(self.parts["alone"], seconds)
            if "listeners" in self.parts:
                await asyncio.gather(
                    self._run_clients(self.parts["listeners"], seconds),
                    self._run_clients(Part(), seconds, self._args.speaking),
                )
            if "adversarial" in self.parts:
                async with self._adversarial_clients(number, seconds):
                    await self._run_clients(self.parts["adversarial"], seconds)
            print(f"round {number + 1} of {self._args.rounds}: {json.dumps(self._figures())}", file=sys.stderr)
        after = await self._server.wait_until_idle()
        return {
            "machine": machine(),
            "parts": self._figures(),
            "attacks": dict(self.attacks),
            "failed": [failure for part in self.parts.values() for failure in part.failed],
            "idle": {"before": before, "after": after},
            "times": {name: [asdict(each) for each in part.times] for name, part in self.parts.items()},
            "usage": {
                name: [asdict(each) for samples in part.rounds for each in samples] for name, part in self.parts.items()
            },
        }

    def _figures(self) -> dict[str, Any]:
        return {name: part.figures() for name, part in self.parts.items()}

    async def _run_clients(self, part: Part, seconds: float, clients: int | None = None) -> None:
        """Run real-time clients for ``seconds``, and sample the server's resource usage."""
        end = time.monotonic() + seconds
        samples: list[ResourceUsage] = [self._server.usage()]
        part.rounds.append(samples)
        part.seconds -= time.monotonic()

        async def run_client() -> None:
            while time.monotonic() < end:
                self._seeds += 1
                began = time.monotonic()
                try:
                    times = await play_sentence(client, TEXTS[self._seeds % len(TEXTS)], self._seeds)
                except httpx.HTTPError as error:
                    part.failed.append(repr(error))
                    await asyncio.sleep(_RETRY_S)
                    continue
                part.times.append(times)
                await asyncio.sleep(began + times.first + times.audio - time.monotonic())

        async def watch() -> None:
            while True:  # in a thread, because it takes long with many connections, and the clients must not be late
                samples.append(await asyncio.to_thread(self._server.usage))
                await asyncio.sleep(_SAMPLE_S)

        async with httpx.AsyncClient(base_url=self._server.address, timeout=TIMEOUT_S) as client:
            watching = asyncio.create_task(watch())
            await asyncio.gather(*(run_client() for _ in range(clients or self._args.listeners)))
            watching.cancel()
        samples.append(self._server.usage())
        part.ends.append(len(part.times))
        part.seconds += time.monotonic()

    @asynccontextmanager
    async def _adversarial_clients(self, seed: int, seconds: float) -> AsyncIterator[None]:
        """Run adversarial clients in another process, at a low priority. They begin when the process has started."""
        values = {"clients": self._args.clients, "seconds": seconds, "speaking": self._args.speaking, "seed": seed}
        options = [f"--{name}={value}" for name, value in values.items()]
        module = "benchmarks.http.adversarial"
        command = ("nice", "-n", "10", sys.executable, "-m", module, self._server.address, *options)
        process: Process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
        try:
            assert process.stdout is not None
            await asyncio.wait_for(process.stdout.readline(), TIMEOUT_S)
            yield
            output, _ = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
        finally:
            if process.returncode is None:
                process.kill()
        self.attacks.update(json.loads(output))


def table(results: dict[str, Any]) -> str:
    """Return the results as a Markdown table."""
    parts = results["parts"]
    rows = ["| |" + "".join(f" {name} |" for name in parts), "|---|" + "---|" * len(parts)]
    for figure in next(iter(parts.values())):
        rows.append(f"| {figure} |" + "".join(f" {_cell(part[figure])} |" for part in parts.values()))
    attacks = ", ".join(f"{count} {name}" for name, count in sorted(results["attacks"].items()))
    idle = (f"{moment}: {usage}" for moment, usage in results["idle"].items())
    return "\n".join([*rows, f"attacks: {attacks}", "resources in use while idle", *idle])


def _cell(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> None:
    """Start a server, run the soak test and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=2, help="length of each part of a round")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="the parts of a round")
    parser.add_argument("--clients", type=int, default=200, help="number of adversarial clients")
    parser.add_argument("--listeners", type=int, default=2, help="number of real-time clients")
    parser.add_argument(
        "--speaking", type=int, default=2, help="maximum number of adversarial clients that request speech at a time"
    )
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_server(args.config, Path(folder, "log")) as (address, _):
        results = asyncio.run(Soak(Server(address), args).run())
    print(table(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

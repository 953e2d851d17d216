"""Compares the servers of several checkouts: startup, memory, first audio, real-time factor and throughput.

    python -m benchmarks.http.checkouts FOLDER FOLDER... [--rounds 4] [--repeats 18] [--at-once 8]

FOLDERs are checkouts of different commits, for example made by ``git worktree add``. The sources come from them, and
the installed packages from the environment that runs this. Each checkout serves its ``configs/pocket.yaml``, one
checkout after another, several rounds. The printed values are the medians of the rounds:

- ready: seconds from the start of the process until the server is ready;
- idle, used: memory of all its processes in MB (PSS: shared pages are divided among the processes that map them), when
  it is ready and after the requests;
- first audio: milliseconds from a request to the first audible sample at the client, one request at a time;
- real-time factor: seconds until the last sample of a single stream, per second of its audio;
- throughput: seconds of audio per second with ``--at-once`` clients.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.cpu.pocket import TEXTS, play_sentence
from benchmarks.lib.report import machine
from benchmarks.lib.serving import TIMEOUT_S, running_server, supervisor_process

COLUMNS = ("ready, s", "idle, MB", "used, MB", "first audio, ms", "real-time factor", "throughput")


def memory_mb() -> float:
    """Return the proportional set size of the server's processes in MB."""
    supervisor = supervisor_process()
    members = [supervisor, *supervisor.children(recursive=True)]
    return sum(float(member.memory_full_info().pss) for member in members) / 1e6


async def load(address: str, repeats: int, at_once: int) -> tuple[float, float, float]:
    """Return the median first audio in ms, the median real-time factor, and the seconds of audio per second."""
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT_S) as client:
        for seed in range(3):
            await play_sentence(client, TEXTS[seed], seed)
        times = [await play_sentence(client, TEXTS[turn % len(TEXTS)], turn) for turn in range(repeats)]
        began = time.perf_counter()
        crowd = await asyncio.gather(*(play_sentence(client, TEXTS[n % len(TEXTS)], n) for n in range(at_once)))
        seconds = time.perf_counter() - began
    first = 1000 * statistics.median(each.first for each in times)
    factor = statistics.median(each.last / each.audio for each in times)
    return first, factor, sum(each.audio for each in crowd) / seconds


def measure(checkout: Path, log: Path, repeats: int, at_once: int) -> tuple[float, ...]:
    """Run the server of a checkout once. Return a value for each of ``COLUMNS``."""
    with running_server(checkout / "configs/pocket.yaml", log, checkout=checkout) as (address, ready):
        idle = memory_mb()
        first, factor, throughput = asyncio.run(load(address, repeats, at_once))
        return ready, idle, memory_mb(), first, factor, throughput


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.http.checkouts", description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=18)
    parser.add_argument("--at-once", type=int, default=8)
    arguments = parser.parse_args()
    checkouts = [folder.resolve() for folder in arguments.checkouts]
    results: dict[Path, list[tuple[float, ...]]] = {folder: [] for folder in checkouts}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for checkout in checkouts:
                log = Path(folder, "server.log")
                results[checkout].append(measure(checkout, log, arguments.repeats, arguments.at_once))
    print("{cpu}; Python {python}, torch {torch}".format(**machine()))
    print("| checkout | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---|" * len(COLUMNS))
    for checkout, rounds in results.items():
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        print(f"| {checkout.name} | " + " | ".join(f"{value:.3g}" for value in medians) + " |")


if __name__ == "__main__":
    main()

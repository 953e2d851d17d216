"""Runs the teacher on all GPUs, with several processes per GPU, progress reports and a time limit."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

from scripts.train_pocket.teacher import add_arguments

_REPORT_SECONDS = 10.0
_GRACE_SECONDS = 20.0
"""Seconds after the time limit for the last batch and shard, before a process is killed."""


class Progress:
    """The latest report of every process."""

    def __init__(self) -> None:
        self._latest: dict[int, dict[str, float]] = {}
        self._began = time.monotonic()

    def follow(self, rank: int, process: subprocess.Popen[str]) -> None:
        """Read the output of a process to its end. Keep its reports, drop rejections, print everything else."""
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("teacher "):
                fields = (field.split("=") for field in line.split()[1:])
                self._latest[rank] = {name: float(value) for name, value in fields}
            elif not line.startswith("rejected "):
                print(f"[{rank}] {line}", end="", flush=True)

    def line(self, running: int) -> str:
        """Return one line about all processes."""
        totals = {
            name: sum(report[name] for report in list(self._latest.values()))
            for name in ("utterances", "rejected", "audio_s")
        }
        wall = time.monotonic() - self._began
        return (
            f"teacher wall_s={wall:.0f} processes={running} "
            f"utterances={totals['utterances']:.0f} rejected={totals['rejected']:.0f} "
            f"audio_h={totals['audio_s'] / 3600:.2f} real_time={totals['audio_s'] / wall:.0f}"
        )


def start(options: argparse.Namespace, devices: list[str]) -> list[subprocess.Popen[str]]:
    """Start one process per rank, distributed over ``devices``."""
    world = len(devices) * options.processes
    common = [
        "--plan",
        options.plan,
        "--speakers",
        options.speakers,
        "--weights",
        options.weights,
        "--out",
        options.out,
    ]
    common += ["--first", options.first, "--minutes", options.minutes, "--shard-minutes", options.shard_minutes]
    common += [] if options.count is None else ["--count", options.count]
    processes = []
    for rank in range(world):
        rank_options = ["--rank", rank, "--world", world, "--device", devices[rank % len(devices)]]
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "scripts.train_pocket.teacher",
            *map(str, [*common, *rank_options]),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_MODULE_LOADING": "LAZY"}
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        )
    return processes


def watch(processes: list[subprocess.Popen[str]], minutes: float) -> int:
    """Report until all processes exit, and kill them after ``minutes``. Return how many failed or were killed."""
    progress = Progress()
    readers = [
        threading.Thread(target=progress.follow, args=(rank, process), daemon=True)
        for rank, process in enumerate(processes)
    ]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + minutes * 60 + _GRACE_SECONDS
    reported = time.monotonic()
    while running := sum(process.poll() is None for process in processes):
        if time.monotonic() > deadline:
            print(f"killing {running} processes after the time limit", flush=True)
            _kill(processes)
            break
        if time.monotonic() - reported >= _REPORT_SECONDS:
            print(progress.line(running), flush=True)
            reported = time.monotonic()
        time.sleep(0.2)
    for reader in readers:
        reader.join(timeout=5)
    print(progress.line(0), flush=True)
    return sum(process.returncode != 0 for process in processes)


def _kill(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def main() -> None:
    """Parse the arguments and run the processes. The exit status is 1 if all failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--processes", type=int, default=14, help="processes per GPU")
    parser.add_argument("--cpu", action="store_true", help="run all processes on the CPU")
    options = parser.parse_args()
    devices = ["cpu"] if options.cpu else [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if not devices:
        parser.error("no GPU is visible; use --cpu to run on the CPU")
    Path(options.out).mkdir(parents=True, exist_ok=True)
    processes = start(options, devices)
    try:
        failed = watch(processes, options.minutes)
    finally:
        _kill(processes)
    if failed:
        print(f"{failed} of {len(processes)} processes failed", flush=True)
    sys.exit(1 if failed == len(processes) else 0)


if __name__ == "__main__":
    main()

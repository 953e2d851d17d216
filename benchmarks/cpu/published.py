"""Measures a server with a published-size checkpoint on a CPU: real-time factor, first audio, memory, time to load.

    python -m benchmarks.cpu.published FOLDER [FOLDER ..] [--weights exact int8 int4] [--threads auto 1 2] [--busy 2]

Starts a server for each checkpoint, weight format and number of threads per stage, and requests the same sentence
``--requests`` times, one after the other. ``auto`` for the threads lets the server measure how to share the cores.
With ``--busy``, that many other processes compute all the time.
Prints

- the seconds from the start of ``sonant serve`` to ready, and the CPU seconds of all processes until then,
- of the fastest request: the time to the first byte of audio, and the real-time factor,
- the resident memory of all processes after the requests, and the largest of the engine process, in MiB.

A packed checkpoint has one format: use ``--weights auto``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import yaml

from benchmarks.lib.processes import Processes, processes
from benchmarks.lib.serving import running_server, supervisor_process

TEXT = "The quick brown fox jumps over the lazy dog, and the dog sleeps on."
BYTES_PER_SECOND = 48_000
TIMEOUT_S = 600.0


def speak(client: httpx.Client, frames: int, seed: int) -> tuple[float, float]:
    """Return the seconds to the first byte of an utterance of at most ``frames`` frames, and its real-time factor."""
    body = {"input": TEXT, "response_format": "pcm", "seed": seed, "max_new_tokens": frames + 1}
    began = time.perf_counter()
    first, size = 0.0, 0
    with client.stream("POST", "/v1/audio/speech", json=body) as response:
        response.raise_for_status()
        for piece in response.iter_raw():
            first = first or time.perf_counter() - began
            size += len(piece)
    return first, (time.perf_counter() - began) / (size / BYTES_PER_SECOND)


def peak_mib(pid: int) -> float:
    """Return the largest resident memory of a process so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) / 1024


def report(name: str, server: Processes, address: str, seconds: float, requests: int, frames: int) -> None:
    """Print the figures of a server that is ready after ``seconds``."""
    cpu = sum(sum(process.cpu_times()[:2]) for process in server.all)
    with httpx.Client(base_url=address, timeout=TIMEOUT_S) as client:
        (card,) = client.get("/v1/models").raise_for_status().json()["data"]
        spoken = [speak(client, frames, seed) for seed in range(requests)]
    first, factor = (min(values) for values in zip(*spoken, strict=True))
    resident = sum(process.memory_info().rss for process in server.all) / 2**20
    print(
        f"{name} ({card['weights']}): ready in {seconds:.1f} s, {cpu:.1f} s of CPU time; first audio "
        f"{1000 * first:.0f} ms, real-time factor {factor:.2f}; {resident:.0f} MiB, engine at most "
        f"{max(peak_mib(process.pid) for process in server.engine):.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Measure every combination, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="checkpoints with named voices")
    parser.add_argument("--weights", choices=("auto", "exact", "int8", "int4"), nargs="+", default=["auto"])
    parser.add_argument("--threads", nargs="+", default=["auto"], help="auto or a number of threads per stage")
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--busy", type=int, default=0, help="number of processes that compute beside the server")
    parser.add_argument("--frames", type=int, default=60, help="maximum frames of an utterance")
    args = parser.parse_args()
    with ExitStack() as beside:
        for _ in range(args.busy):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            beside.callback(process.kill)
        _measure(args)


def _measure(args: argparse.Namespace) -> None:
    for folder in args.folders:
        for weights in args.weights:
            for threads in args.threads:
                name = f"{folder.name}, {weights}, threads {threads}"
                engine: dict[str, Any] = {"model": str(folder.resolve()), "device": "cpu"}
                engine |= {"talker": {"weights": weights}}
                engine |= {} if threads == "auto" else {"threads": int(threads)}
                with tempfile.TemporaryDirectory() as work:
                    config = Path(work, "sonant.yaml")
                    config.write_text(yaml.safe_dump({"engine": engine, "voices": {"folder": f"{work}/voices"}}))
                    log = Path(work, "log")
                    with running_server(config, log) as (address, seconds):
                        server = processes(supervisor_process().pid)
                        report(name, server, address, seconds, args.requests, args.frames)


if __name__ == "__main__":
    main()

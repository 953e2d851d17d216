"""Measures the cost of a request without the models: CPU time (us) in each thread, and ms until its first chunk.

    python -m benchmarks.http.request_cost [--requests 2000] [--at-once 1 64] [--bursts 64 256]

The server runs with ``benchmarks/lib/stand_in_engine.py`` in place of both models, which take no time here. Clients
request utterances of one frame as raw PCM, each on its own connection: first with a fixed concurrency (--at-once), then
in simultaneous bursts (--bursts). CPU time is counted by the kernel per thread and divided by the number of requests.
It includes the end of the request and its log line. ``http`` is the whole HTTP process, ``loop`` its event loop,
``talker`` and ``code2wav`` the threads of the stages, ``rest`` the other threads of the engine process. ``first`` is
the time from before the connection, or from the start of the burst, to the first byte of audio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import yaml

from benchmarks.lib import serving
from benchmarks.lib.processes import Processes, processes
from benchmarks.lib.report import machine
from benchmarks.lib.stand_in_engine import BATCH_MS, LAUNCHES, MOST_PAUSES, PAUSES, STEP_MS, SWITCH_MS, is_code2wav
from tests.support.random_checkpoint import write_checkpoint

_BODY = {"input": "Nobody had expected so much rain.", "response_format": "pcm", "max_new_tokens": 2}
_PATIENCE_S = 30.0
_BURSTS = 20
_PARTS = ("http", "loop", "talker", "code2wav", "rest")


class _Listener(asyncio.Protocol):
    """Sends a request, and records when the first byte of audio arrives. over: done when the server disconnects."""

    def __init__(self, request: bytes) -> None:
        self.over = asyncio.get_running_loop().create_future()
        self.first = 0.0
        self._request, self._begun = request, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.first:
            return
        self._begun += data
        head, _, sound = self._begun.partition(b"\r\n\r\n")
        if sound:
            self.first = time.perf_counter()
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(self._begun.decode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set_result(None)


class Asker:
    """Sends requests for one frame to the server at ``address``."""

    def __init__(self, address: str) -> None:
        place = address.removeprefix("http://")
        self._host, _, port = place.partition(":")
        self._port = int(port)
        body = json.dumps(_BODY).encode()
        head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {place}\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def first(self) -> float:
        """Send one request and read the whole response. Return when its first audio arrived (``time.perf_counter``)."""
        listener = _Listener(self._request)
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.get_running_loop().create_connection(lambda: listener, self._host, self._port)
            await listener.over
        return listener.first


async def crowd(asker: Asker, at_once: int, requests: int) -> list[float]:
    """Send ``requests`` requests, ``at_once`` at a time. Return the seconds until the first chunk of each."""
    left = iter(range(requests))
    waits = []

    async def one_after_the_other() -> None:
        for _ in left:
            begun = time.perf_counter()
            waits.append(await asker.first() - begun)

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
    return waits


async def bursts(asker: Asker, size: int) -> list[float]:
    """Send several bursts of ``size`` requests. Return the seconds from the burst's start to each first chunk."""
    waits = []
    for _ in range(_BURSTS):
        begun = time.perf_counter()
        waits += [first - begun for first in await asyncio.gather(*(asker.first() for _ in range(size)))]
        await asyncio.sleep(0.1)
    return waits


def spent(server: Processes) -> np.ndarray:
    """Return the CPU seconds used so far by each of ``_PARTS``."""
    http, engine = server.http, server.engine[0]
    threads, stages = _threads(http.pid), _threads(engine.pid)
    [code2wav] = [each for each in stages if is_code2wav(engine.pid, each)]
    ours = (stages[engine.pid], stages[code2wav])
    return np.array([sum(threads.values()), threads[http.pid], *ours, sum(stages.values()) - sum(ours)])


def _threads(pid: int) -> dict[int, float]:
    tasks = Path(f"/proc/{pid}/task")
    return {int(each.name): int((each / "schedstat").read_text().split()[0]) / 1e9 for each in tasks.iterdir()}


def row(name: str, ask: Callable[[], Awaitable[list[float]]], server: Processes) -> str:
    """Run ``ask`` and return a table row: CPU time per request, and quantiles of the time to the first chunk."""
    before = spent(server)
    begun = time.perf_counter()
    waits = asyncio.run(ask())
    seconds = time.perf_counter() - begun
    each = 1e6 * (spent(server) - before) / len(waits)
    quantiles = 1e3 * np.quantile(waits, (0.5, 0.95, 1))
    figures = "".join(f"{value:9.0f}" for value in each) + "".join(f"{value:9.2f}" for value in quantiles)
    return f"{name:12}{figures}{len(waits) / seconds:10,.0f}"


def main() -> None:
    """Start one server and run all measurements on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 64])
    parser.add_argument("--bursts", type=int, nargs="*", default=[64, 256])
    given = parser.parse_args()
    os.environ |= {STEP_MS: "0", BATCH_MS: "0", SWITCH_MS: "5", LAUNCHES: "0"}
    print("{cpu}, {cores} cores; Python {python}".format(**machine()), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[PAUSES] = str(folder / "pauses")
        np.memmap(folder / "pauses", np.float32, "w+", shape=(1 + MOST_PAUSES,))
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(_settings(folder, max([*given.at_once, *given.bursts, 1]))))
        program = ("benchmarks.lib.stand_in_engine", "server.cli.main")
        with serving.served(config, folder / "log", program=program) as (address, _):
            server = processes(serving.started().pid)
            measure(Asker(address), server, given)


def _settings(folder: Path, most: int) -> dict[str, object]:
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    write_checkpoint(checkpoint, "0b6-custom_voice")
    talker = {"engine": "native", "slots": most, "context": 1024}
    code2wav = {"placement": "thread", "streams": most}
    return {
        "engine": {
            "model": str(checkpoint),
            "device": "cpu",
            "threads": 1,
            "talker": talker,
            "code2wav": code2wav,
        }
    }


def measure(asker: Asker, server: Processes, given: argparse.Namespace) -> None:
    """Print the table."""
    asyncio.run(crowd(asker, 8, 200))
    heads = "".join(f"{part:>9}" for part in _PARTS)
    print(f"{'us a request':12}{heads}{'first ms':>9}{'p95':>9}{'worst':>9}{'a second':>10}", flush=True)
    for at_once in given.at_once:
        print(row(f"{at_once} at once", lambda n=at_once: crowd(asker, n, given.requests), server), flush=True)
    for size in given.bursts:
        print(row(f"burst of {size}", lambda n=size: bursts(asker, n), server), flush=True)


if __name__ == "__main__":
    sys.exit(main())

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
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.lib import serving
from benchmarks.lib.processes import Processes, processes
from benchmarks.lib.report import machine
from benchmarks.lib.stand_in_engine import BATCH_MS, LAUNCHES, MOST_PAUSES, PAUSES, STEP_MS, SWITCH_MS, is_code2wav
from tests.support.random_checkpoint import write_checkpoint

_BODY = {"input": "Nobody had expected so much rain.", "response_format": "pcm", "max_new_tokens": 2}
_TIMEOUT_S = 30.0
_BURSTS = 20
_PARTS = ("http", "loop", "talker", "code2wav", "rest")


class _ResponseReader(asyncio.Protocol):
    """Sends a request, and records when the first byte of audio arrives. closed: done when the server disconnects."""

    def __init__(self, request: bytes) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self.first = 0.0
        self._request, self._head = request, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.first:
            return
        self._head += data
        headers, _, audio = self._head.partition(b"\r\n\r\n")
        if audio:
            self.first = time.perf_counter()
        if not headers.startswith(b"HTTP/1.1 200"):
            raise SystemExit(self._head.decode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


class RequestSender:
    """Sends requests for one frame to the server at ``address``."""

    def __init__(self, address: str) -> None:
        netloc = address.removeprefix("http://")
        self._host, _, port = netloc.partition(":")
        self._port = int(port)
        body = json.dumps(_BODY).encode()
        headers = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {netloc}\r\nContent-Type: application/json\r\n"
        self._request = f"{headers}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def first(self) -> float:
        """Send one request and read the whole response. Return when its first audio arrived (``time.perf_counter``)."""
        reader = _ResponseReader(self._request)
        async with asyncio.timeout(_TIMEOUT_S):
            await asyncio.get_running_loop().create_connection(lambda: reader, self._host, self._port)
            await reader.closed
        return reader.first


async def concurrent_requests(sender: RequestSender, at_once: int, requests: int) -> list[float]:
    """Send ``requests`` requests, ``at_once`` at a time. Return the seconds until the first chunk of each."""
    remaining = iter(range(requests))
    first_chunk_seconds = []

    async def send_remaining() -> None:
        for _ in remaining:
            began = time.perf_counter()
            first_chunk_seconds.append(await sender.first() - began)

    await asyncio.gather(*(send_remaining() for _ in range(at_once)))
    return first_chunk_seconds


async def bursts(sender: RequestSender, size: int) -> list[float]:
    """Send several bursts of ``size`` requests. Return the seconds from the burst's start to each first chunk."""
    first_chunk_seconds = []
    for _ in range(_BURSTS):
        began = time.perf_counter()
        first_chunk_seconds += [first - began for first in await asyncio.gather(*(sender.first() for _ in range(size)))]
        await asyncio.sleep(0.1)
    return first_chunk_seconds


def cpu_seconds(server: Processes) -> np.ndarray:
    """Return the CPU seconds used so far by each of ``_PARTS``."""
    http, engine = server.http, server.engine[0]
    threads, stages = _threads(http.pid), _threads(engine.pid)
    [code2wav] = [each for each in stages if is_code2wav(engine.pid, each)]
    stage_seconds = (stages[engine.pid], stages[code2wav])
    return np.array(
        [sum(threads.values()), threads[http.pid], *stage_seconds, sum(stages.values()) - sum(stage_seconds)]
    )


def _threads(pid: int) -> dict[int, float]:
    tasks = Path(f"/proc/{pid}/task")
    return {int(each.name): int((each / "schedstat").read_text().split()[0]) / 1e9 for each in tasks.iterdir()}


def row(name: str, send: Callable[[], Coroutine[Any, Any, list[float]]], server: Processes) -> str:
    """Run ``send`` and return a table row: CPU time per request, and quantiles of the time to the first chunk."""
    before = cpu_seconds(server)
    began = time.perf_counter()
    first_chunk_seconds = asyncio.run(send())
    seconds = time.perf_counter() - began
    each = 1e6 * (cpu_seconds(server) - before) / len(first_chunk_seconds)
    quantiles = 1e3 * np.quantile(first_chunk_seconds, (0.5, 0.95, 1))
    figures = "".join(f"{value:9.0f}" for value in each) + "".join(f"{value:9.2f}" for value in quantiles)
    return f"{name:12}{figures}{len(first_chunk_seconds) / seconds:11,.0f}"


def main() -> None:
    """Start one server and run all measurements on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="requests for each number of --at-once")
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 64], help="numbers of concurrent requests")
    parser.add_argument("--bursts", type=int, nargs="*", default=[64, 256], help="numbers of simultaneous requests")
    args = parser.parse_args()
    os.environ |= {STEP_MS: "0", BATCH_MS: "0", SWITCH_MS: "5", LAUNCHES: "0"}
    print("{cpu}, {cores} cores; Python {python}".format(**machine()), flush=True)
    with stand_in_server(max([*args.at_once, *args.bursts, 1])) as (address, server):
        measure(RequestSender(address), server, args)


@contextmanager
def stand_in_server(most: int) -> Iterator[tuple[str, Processes]]:
    """Run a server with ``most`` slots and stand-ins for its models. Yield its address and its processes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(stand_in_settings(folder, most)))
        program = ("benchmarks.lib.stand_in_engine", "server.cli.main")
        with serving.running_server(config, folder / "log", program=program) as (address, _):
            yield address, processes(serving.supervisor_process().pid)


def stand_in_settings(folder: Path, most: int) -> dict[str, object]:
    """Return the settings of a server with ``most`` slots, for ``benchmarks.lib.stand_in_engine``.

    Writes the files that it needs to ``folder``, and sets the environment variable that names one of them.
    """
    os.environ[PAUSES] = str(folder / "pauses")
    np.memmap(folder / "pauses", np.float32, "w+", shape=(1 + MOST_PAUSES,))
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
        },
        "guards": "off",
    }


def measure(sender: RequestSender, server: Processes, args: argparse.Namespace) -> None:
    """Print the table."""
    asyncio.run(concurrent_requests(sender, 8, 200))
    heads = "".join(f"{part:>9}" for part in _PARTS)
    print(f"{'us/request':12}{heads}{'first ms':>9}{'p95':>9}{'worst':>9}{'requests/s':>11}", flush=True)
    for at_once in args.at_once:
        send = partial(concurrent_requests, sender, at_once, args.requests)
        print(row(f"{at_once} at once", send, server), flush=True)
    for size in args.bursts:
        print(row(f"burst of {size}", partial(bursts, sender, size), server), flush=True)


if __name__ == "__main__":
    main()

"""Runs a load against a server and records a trace of each request."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from itertools import chain, islice

from server.bench.client import Client, Send
from server.bench.realtime_client import BYTES_PER_SAMPLE, Player
from server.bench.trace import Trace
from server.bench.workload import Closed, Load, Open, RealtimeClients, Workload

_POLL_SECONDS = 0.002
"""The event loop polls for the last seconds before a deadline, because its timers are up to 1 ms late."""
_RETRY_SECONDS = 1.0
"""Seconds after which a real-time client retries a request that returned no audio."""


@dataclass(frozen=True, slots=True)
class Run:
    """The traces of all requests of one load, ordered by request number.

    Attributes:
        load: the load.
        traces: one for each request.
        began: start of the load, on the clock of the traces.
        date: start of the load, as Unix time.
        seconds: time until the last response ended.
        busy: CPU seconds that this process used during that time.
    """

    load: Load
    traces: list[Trace]
    began: float
    date: float
    seconds: float
    busy: float


async def run(load: Load, client: Client, workload: Workload) -> Run:
    """Send all requests of ``load`` and wait for their responses."""
    date, began, busy = time.time(), time.perf_counter(), time.process_time()
    if isinstance(load, Open):
        traces = await _run_open(load, client, workload)
    elif isinstance(load, Closed):
        traces = await _run_closed(load, client, workload)
    else:
        traces = await _run_realtime(load, client, workload)
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    return Run(load, sorted(traces, key=lambda trace: trace.number), began, date, seconds, busy)


async def _run_open(load: Open, client: Client, workload: Workload) -> list[Trace]:
    """Send each request at its arrival time, regardless of how many are in flight.

    Latencies count from the arrival time, also when the client sends late.
    """
    traces = []
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, at in enumerate(load.arrivals()):
            send = client.prepare(workload.body(number), workload.headers(number))
            await _sleep_until(began + at)
            trace = Trace(number, began + at, time.perf_counter(), workload.frames_of(number))
            traces.append(trace)
            group.create_task(send(trace))
    return traces


async def _run_closed(load: Closed, client: Client, workload: Workload) -> list[Trace]:
    traces: list[Trace] = []
    last = time.perf_counter() + (load.seconds if load.seconds is not None else float("inf"))

    def prepare(number: int) -> tuple[int, Send]:
        return number, client.prepare(workload.body(number), workload.headers(number))

    async def send_requests(first: tuple[int, Send]) -> None:
        for number, send in chain([first], map(prepare, numbers)):
            now = time.perf_counter()
            if now >= last:
                return
            trace = Trace(number, now, now, workload.frames_of(number))
            traces.append(trace)
            await send(trace)

    numbers = load.numbers()
    firsts = [prepare(number) for number in islice(numbers, load.at_once)]
    async with asyncio.TaskGroup() as group:
        for first in firsts:
            group.create_task(send_requests(first))
    return traces


async def _run_realtime(load: RealtimeClients, client: Client, workload: Workload) -> list[Trace]:
    traces: list[Trace] = []
    began = time.perf_counter()
    last = began + (load.seconds if load.seconds is not None else float("inf"))
    numbers = load.numbers()

    async def run_client(listener: int) -> None:
        due = began + load.spread * listener / load.listeners
        while due < last and (number := next(numbers, None)) is not None:
            send = client.prepare(workload.body(number), workload.headers(number))
            await asyncio.sleep(due - time.perf_counter())
            now = time.perf_counter()
            trace = Trace(number, now, now, workload.frames_of(number))
            traces.append(trace)
            await send(trace)
            due = max(time.perf_counter(), _playback_end(trace))

    async with asyncio.TaskGroup() as group:
        for listener in range(load.listeners):
            group.create_task(run_client(listener))
    return traces


def _playback_end(trace: Trace) -> float:
    """Return when a client that plays the response in real time finishes; without audio, when it retries."""
    player, end = Player(trace.rate), trace.ended + (0.0 if trace.pieces else _RETRY_SECONDS)
    for arrived, size in trace.pieces:
        end = player.add(arrived, size) + size / (BYTES_PER_SAMPLE * trace.rate)
    return end


async def _sleep_until(deadline: float) -> None:
    if (left := deadline - time.perf_counter()) > _POLL_SECONDS:
        await asyncio.sleep(left - _POLL_SECONDS)
    while time.perf_counter() < deadline:  # noqa: ASYNC110 - a timer would be late
        await asyncio.sleep(0)

"""Runs a load against a server and records a trace of each request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from server.bench.client import Client
from server.bench.realtime_client import BYTES_A_SAMPLE, Player
from server.bench.trace import Trace
from server.bench.workload import Closed, Load, Open, RealtimeClients, Workload

_FINE = 0.005
"""Seconds before a deadline from which on a thread sleeps until it: the event loop's timers are up to 1 ms late."""
_TRY_AGAIN = 1.0
"""Seconds after which a real-time client retries a request that returned no audio."""


@dataclass(frozen=True, slots=True)
class Run:
    """The traces of all requests of one load, ordered by request number.

    began: start of the load, on the clock of the traces. date: the same as Unix time.
    seconds: time until the last response ended. busy: CPU seconds that this process used during that time.
    """

    load: Load
    traces: list[Trace]
    began: float
    date: float
    seconds: float
    busy: float


async def run(load: Load, client: Client, asking: Workload) -> Run:
    """Send all requests of ``load`` and wait for their responses."""
    date, began, busy = time.time(), time.perf_counter(), time.process_time()
    if isinstance(load, Open):
        traces = await _run_open(load, client, asking)
    elif isinstance(load, Closed):
        traces = await _run_closed(load, client, asking)
    else:
        traces = await _run_audience(load, client, asking)
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    return Run(load, sorted(traces, key=lambda trace: trace.number), began, date, seconds, busy)


async def _run_open(load: Open, client: Client, asking: Workload) -> list[Trace]:
    """Send each request at its arrival time, regardless of how many are in flight.

    Latencies count from the arrival time, also when the client sends late.
    """
    traces = []
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, at in enumerate(load.arrivals()):
            body = asking.body(number)
            await _until(began + at)
            trace = Trace(number, began + at, time.perf_counter(), asking.frames_of(number))
            traces.append(trace)
            group.create_task(client.ask(body, trace))
    return traces


async def _run_closed(load: Closed, client: Client, asking: Workload) -> list[Trace]:
    traces: list[Trace] = []
    last = time.perf_counter() + (load.seconds if load.seconds is not None else float("inf"))

    async def ask_again_and_again(numbers: Iterator[int]) -> None:
        for number in numbers:
            body = asking.body(number)
            now = time.perf_counter()
            if now >= last:
                return
            trace = Trace(number, now, now, asking.frames_of(number))
            traces.append(trace)
            await client.ask(body, trace)

    numbers = load.numbers()
    async with asyncio.TaskGroup() as group:
        for _ in range(load.at_once):
            group.create_task(ask_again_and_again(numbers))
    return traces


async def _run_audience(load: RealtimeClients, client: Client, asking: Workload) -> list[Trace]:
    traces: list[Trace] = []
    began = time.perf_counter()
    last = began + (load.seconds if load.seconds is not None else float("inf"))
    numbers = load.numbers()

    async def listen(listener: int) -> None:
        due = began + load.spread * listener / load.listeners
        while due < last and (number := next(numbers, None)) is not None:
            body = asking.body(number)
            await asyncio.sleep(due - time.perf_counter())
            now = time.perf_counter()
            trace = Trace(number, now, now, asking.frames_of(number))
            traces.append(trace)
            await client.ask(body, trace)
            due = max(time.perf_counter(), _played(trace))

    async with asyncio.TaskGroup() as group:
        for listener in range(load.listeners):
            group.create_task(listen(listener))
    return traces


def _played(trace: Trace) -> float:
    """Return when a client that plays the response in real time finishes; without audio, when it tries again."""
    player, end = Player(trace.rate), trace.ended + (0.0 if trace.pieces else _TRY_AGAIN)
    for moment, size in trace.pieces:
        end = player.take(moment, size) + size / (BYTES_A_SAMPLE * trace.rate)
    return end


async def _until(moment: float) -> None:
    if (left := moment - time.perf_counter()) > _FINE:
        await asyncio.sleep(left - _FINE)
    if (left := moment - time.perf_counter()) > 0:
        await asyncio.to_thread(time.sleep, left)

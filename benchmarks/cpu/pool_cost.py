"""Measures what an engine pool adds to a request: routing, and holding chunks until one is audible.

    python -m benchmarks.cpu.pool_cost

Prints the CPU time of the routing decision for pools of several sizes, and of consuming a stream directly and through
the pool, in microseconds: the best of several runs. The engines are stand-ins that do nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.lib.report import machine
from engine.pool.routing import in_order_of_preference
from engine.pool.stream import Placement, PooledStream
from engine.protocol.engine import ignore_engine
from engine.protocol.request import (
    CODEBOOKS,
    SAMPLES_PER_FRAME,
    AudioChunk,
    Completion,
    FinishReason,
    SpeechRequest,
    Voice,
)

_RUNS, _REPEATS = 7, 500
_CHUNK = AudioChunk(np.full(SAMPLES_PER_FRAME, 3000, np.int16), np.zeros((1, CODEBOOKS), np.int16))
_SPEAKER = SpeechRequest("Hello.", speaker="ava")
_CLONE = SpeechRequest("Hello.", voice=Voice(np.ones(2048, np.float32)))


@dataclass
class _Candidate:
    name: str
    load: int = 3
    slots: int = 256


class _Stream:
    """A stream of ``chunks`` audible chunks that never waits."""

    completion = Completion(FinishReason.STOP, 1, 1)

    def __init__(self, chunks: int) -> None:
        self._left = chunks

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return _CHUNK


class _Dispatcher:
    """Places every request at once."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    def place(self, request: SpeechRequest, *, moved: bool) -> Placement:
        member: Any = _Candidate("0")
        stream: Any = _Stream(self._chunks)
        return Placement(member, stream)

    async def wait_to_place(self, stream: PooledStream) -> None:
        raise AssertionError("every request is placed at once")

    def add_unheard(self, member: object, stream: PooledStream) -> None: ...

    def remove_unheard(self, member: object, stream: PooledStream) -> None: ...

    def wake_waiting(self) -> None: ...


def _microseconds(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_RUNS):
        began = time.process_time()
        for _ in range(_REPEATS):
            call()
        best = min(best, (time.process_time() - began) / _REPEATS)
    return best * 1e6


def _run(runner: asyncio.Runner, chunks: int, pooled: bool) -> None:
    """Consume a stream of ``chunks`` chunks, directly or through a pool."""
    dispatcher: Any = _Dispatcher(chunks)
    runner.run(_consume(PooledStream(dispatcher, _SPEAKER, ignore_engine) if pooled else _Stream(chunks)))


async def _consume(stream: AsyncIterator[AudioChunk]) -> None:
    async for _ in stream:
        pass


def main() -> None:
    """Print both tables."""
    print("{cpu}; Python {python}".format(**machine()))
    print("| engines | routing of a speaker, µs | of a clone, µs |\n|---|---|---|")
    for count in (1, 2, 8):
        engines = [_Candidate(str(number)) for number in range(count)]
        times = [_microseconds(partial(in_order_of_preference, engines, request)) for request in (_SPEAKER, _CLONE)]
        print(f"| {count} | {times[0]:.1f} | {times[1]:.1f} |")
    print("\n| chunks | direct, µs | through the pool, µs |\n|---|---|---|")
    with asyncio.Runner() as runner:
        for chunks in (1, 100):
            times = [_microseconds(partial(_run, runner, chunks, pooled)) for pooled in (False, True)]
            print(f"| {chunks} | {times[0]:.1f} | {times[1]:.1f} |")


if __name__ == "__main__":
    main()

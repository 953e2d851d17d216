"""Files made beside the event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from server.audio.encoders import FORMATS, Encoder, Format
from server.audio.pipeline import Rendering
from tests.server.hearing import decode_audio

PATIENCE = 30.0
BLOCK = np.zeros(1920, np.int16)


class Slow:
    """An encoder that takes until it is let go, and tells what happens to it."""

    def __init__(self) -> None:
        self.entered, self.let_go, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.broken = False

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        self.entered.set()
        assert self.let_go.wait(PATIENCE)
        self.broken = self.closed.is_set()
        return b"x"

    def finish(self) -> bytes:
        return b""

    def close(self) -> None:
        self.closed.set()

    def format(self) -> Format:
        def made(rate: int, whole: bool) -> Encoder:
            return self

        return Format("audio/slow", made)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


async def entered(slow: Slow) -> None:
    assert await asyncio.to_thread(slow.entered.wait, PATIENCE)


async def test_the_event_loop_runs_while_a_block_is_encoded(threads: ThreadPoolExecutor) -> None:
    slow = Slow()
    rendering = Rendering(slow.format(), threads)
    encoding = asyncio.create_task(rendering.encode(BLOCK))
    await entered(slow)
    assert not encoding.done()
    slow.let_go.set()
    assert await encoding == b"x"
    rendering.close()
    assert slow.closed.is_set()


async def test_who_gives_up_leaves_at_once_and_what_is_used_is_freed_after_its_use(threads: ThreadPoolExecutor) -> None:
    slow = Slow()
    rendering = Rendering(slow.format(), threads)
    encoding = asyncio.create_task(rendering.encode(BLOCK))
    await entered(slow)
    encoding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await encoding
    rendering.close()
    assert not slow.closed.is_set()
    slow.let_go.set()
    assert await asyncio.to_thread(slow.closed.wait, PATIENCE)
    assert not slow.broken


async def test_a_block_that_waits_for_a_thread_is_never_encoded_once_it_is_given_up() -> None:
    first, second = Slow(), Slow()
    with ThreadPoolExecutor(1) as thread:
        occupied = asyncio.create_task(Rendering(first.format(), thread).encode(BLOCK))
        await entered(first)
        rendering = Rendering(second.format(), thread)
        waiting = asyncio.create_task(rendering.encode(BLOCK))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        rendering.close()
        assert second.closed.is_set()
        first.let_go.set()
        await occupied
    assert not second.entered.is_set()


async def test_files_made_side_by_side_do_not_mix(threads: ThreadPoolExecutor) -> None:
    async def made(level: int) -> NDArray[np.float32]:
        rendering = Rendering(FORMATS["flac"], threads)
        parts = [await rendering.encode(np.full(1920, level, np.int16)) for _ in range(20)]
        data = b"".join([*parts, await rendering.finish()])
        rendering.close()
        return decode_audio(data, "flac")[0]

    levels = range(0, 32_000, 2_000)
    for level, heard in zip(levels, await asyncio.gather(*map(made, levels)), strict=True):
        assert len(heard) == 20 * 1920
        assert (32_768 * heard == level).all()


@pytest.mark.parametrize("kind", ["mp3", "opus", "aac", "flac"])
async def test_files_given_up_midway_leave_nothing(threads: ThreadPoolExecutor, kind: str) -> None:
    async def give_up(times: int) -> int:
        for _ in range(times):
            rendering = Rendering(FORMATS[kind], threads, speed=1.5, rate=16_000)
            await rendering.encode(BLOCK)
            rendering.close()
        gc.collect()
        return int(process.memory_info().rss)

    process = psutil.Process()
    await give_up(100)
    before = await give_up(100)
    assert await give_up(300) - before < 2**23

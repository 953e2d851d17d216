"""Encoding of audio in a thread pool."""

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
from server.audio.pipeline import AudioPipeline
from tests.server.audio_decoding import decode_audio

TIMEOUT = 30.0
BLOCK = np.zeros(1920, np.int16)


class SlowEncoder:
    """An encoder that blocks until it is released, and records its calls."""

    def __init__(self) -> None:
        self.entered, self.released, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.closed_during_encode = False

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        self.entered.set()
        assert self.released.wait(TIMEOUT)
        self.closed_during_encode = self.closed.is_set()
        return b"x"

    def finish(self) -> bytes:
        return b""

    def close(self) -> None:
        self.closed.set()

    def format(self) -> Format:
        def create(rate: int, streaming: bool) -> Encoder:
            return self

        return Format("audio/slow", create)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


async def until_entered(slow: SlowEncoder) -> None:
    assert await asyncio.to_thread(slow.entered.wait, TIMEOUT)


async def test_the_event_loop_runs_while_a_block_is_encoded(threads: ThreadPoolExecutor) -> None:
    slow = SlowEncoder()
    pipeline = AudioPipeline(slow.format(), threads)
    encoding = asyncio.create_task(pipeline.encode(BLOCK))
    await until_entered(slow)
    assert not encoding.done()
    slow.released.set()
    assert await encoding == b"x"
    pipeline.close()
    assert slow.closed.is_set()


async def test_a_cancelled_encode_returns_at_once_and_closes_the_encoder_afterwards(
    threads: ThreadPoolExecutor,
) -> None:
    slow = SlowEncoder()
    pipeline = AudioPipeline(slow.format(), threads)
    encoding = asyncio.create_task(pipeline.encode(BLOCK))
    await until_entered(slow)
    encoding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await encoding
    pipeline.close()
    assert not slow.closed.is_set()
    slow.released.set()
    assert await asyncio.to_thread(slow.closed.wait, TIMEOUT)
    assert not slow.closed_during_encode


async def test_a_block_cancelled_while_queued_is_never_encoded() -> None:
    first, second = SlowEncoder(), SlowEncoder()
    with ThreadPoolExecutor(1) as thread:
        occupied = asyncio.create_task(AudioPipeline(first.format(), thread).encode(BLOCK))
        await until_entered(first)
        pipeline = AudioPipeline(second.format(), thread)
        waiting = asyncio.create_task(pipeline.encode(BLOCK))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        pipeline.close()
        assert second.closed.is_set()
        first.released.set()
        await occupied
    assert not second.entered.is_set()


async def test_concurrent_encodings_are_independent(threads: ThreadPoolExecutor) -> None:
    async def encode(level: int) -> NDArray[np.float32]:
        pipeline = AudioPipeline(FORMATS["flac"], threads)
        parts = [await pipeline.encode(np.full(1920, level, np.int16)) for _ in range(20)]
        data = b"".join([*parts, await pipeline.finish()])
        pipeline.close()
        return decode_audio(data, "flac")[0]

    levels = range(0, 32_000, 2_000)
    for level, decoded in zip(levels, await asyncio.gather(*map(encode, levels)), strict=True):
        assert len(decoded) == 20 * 1920
        assert (32_768 * decoded == level).all()


@pytest.mark.parametrize("kind", ["mp3", "opus", "aac", "flac"])
async def test_unfinished_files_leak_no_memory(threads: ThreadPoolExecutor, kind: str) -> None:
    async def abandon(times: int) -> int:
        for _ in range(times):
            pipeline = AudioPipeline(FORMATS[kind], threads, speed=1.5, rate=16_000)
            await pipeline.encode(BLOCK)
            pipeline.close()
        gc.collect()
        return int(process.memory_info().rss)

    process = psutil.Process()
    await abandon(100)
    before = await abandon(100)
    assert await abandon(300) - before < 2**23

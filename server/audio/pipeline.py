"""Turns engine samples into file bytes: silence trimming, time stretch, resampling and encoding, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from engine.protocol.samples import to_float32, to_int16
from server.audio.encoders import Format
from server.audio.filters import Resampler, Stretch


class _Filter(Protocol):
    """A streaming filter. It may delay some samples until later calls."""

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]: ...

    def flush(self) -> NDArray[np.float32]: ...


class Chain:
    """The filters and the encoder for one file. Filters that would change nothing are left out.

    Args:
        output: format of the file.
        speed: factor of the speed.
        rate: requested sample rate in Hz.
        streaming: whether ``encode`` returns bytes; otherwise ``finish`` returns the complete file.

    Attributes:
        rate: sample rate of the file in Hz.
        light: whether the work is too small to be worth a thread.
    """

    def __init__(self, output: Format, *, speed: float = 1.0, rate: int = SAMPLE_RATE, streaming: bool = True) -> None:
        self.rate = output.rate_for(rate)
        self._filters: list[_Filter] = []
        if speed != 1.0:
            self._filters.append(Stretch(speed, SAMPLE_RATE))
        if self.rate != SAMPLE_RATE:
            self._filters.append(Resampler(SAMPLE_RATE, self.rate))
        self._encoder = output.encoder(self.rate, streaming)
        self.light = output.light and not self._filters

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Return the bytes that these samples complete, possibly none."""
        if not self._filters:
            return self._encoder.encode(samples)
        filtered = to_float32(samples)
        for each in self._filters:
            filtered = each.process(filtered)
        return self._encoder.encode(to_int16(filtered))

    def finish(self) -> bytes:
        """Return the buffered bytes and the trailer of the file."""
        if not self._filters:
            return self._encoder.finish()
        rest = np.zeros(0, np.float32)
        for each in self._filters:
            rest = np.concatenate([each.process(rest), each.flush()])
        return self._encoder.encode(to_int16(rest)) + self._encoder.finish()

    def close(self) -> None:
        """Free all resources, finished or not."""
        self._filters.clear()
        self._encoder.close()


class AudioPipeline:
    """Encodes one utterance from the event loop. Expensive work runs on ``threads``, one block of samples at a time.

    A cancelled call returns at once. The block that is being encoded still completes in its thread; ``close`` frees
    the resources after that.
    """

    def __init__(
        self, output: Format, threads: Executor, *, speed: float = 1.0, rate: int = SAMPLE_RATE, streaming: bool = True
    ) -> None:
        self._chain = Chain(output, speed=speed, rate=rate, streaming=streaming)
        self._threads = threads
        self._last: Future[bytes] | None = None
        self.media_type = output.media_type
        self.sample_rate = self._chain.rate

    async def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Return the bytes that these samples complete, possibly none."""
        return await self._run(lambda: self._chain.encode(samples))

    async def finish(self) -> bytes:
        """Return the buffered bytes and the trailer of the file."""
        return await self._run(self._chain.finish)

    def close(self) -> None:
        """Free all resources, finished or not. Does not wait for a block that is still being encoded."""
        if self._last is None:
            self._chain.close()
        else:
            self._last.add_done_callback(lambda _: self._chain.close())

    async def _run(self, work: Callable[[], bytes]) -> bytes:
        if self._chain.light:
            return work()
        self._last = self._threads.submit(work)
        return await asyncio.wrap_future(self._last)

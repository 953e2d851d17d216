"""The making of a file beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future

import numpy as np
from numpy.typing import NDArray

from engine.request import SAMPLE_RATE
from server.audio.chain import Chain
from server.audio.encoders import Format


class Rendering:
    """One utterance's file. What takes time is done on ``threads``, a block of samples at a time.

    A caller that is cancelled leaves at once; at most the block that is being encoded is still encoded, and what
    ``close`` frees is free after it.
    """

    def __init__(
        self, kind: Format, threads: Executor, *, speed: float = 1.0, rate: int = SAMPLE_RATE, whole: bool = False
    ) -> None:
        self._chain = Chain(kind, speed=speed, rate=rate, whole=whole)
        self._threads = threads
        self._last: Future[bytes] | None = None
        self.media_type = kind.media_type
        self.sample_rate = self._chain.rate

    async def encode(self, samples: NDArray[np.int16]) -> bytes:
        """The bytes that these samples complete, which may be none."""
        return await self._done(lambda: self._chain.encode(samples))

    async def finish(self) -> bytes:
        """What was held back, and what stands after the last sample."""
        return await self._done(self._chain.finish)

    def close(self) -> None:
        """Give up or be done; without waiting."""
        if self._last is None:
            self._chain.close()
        else:
            self._last.add_done_callback(lambda _: self._chain.close())

    async def _done(self, work: Callable[[], bytes]) -> bytes:
        if self._chain.light:
            return work()
        self._last = self._threads.submit(work)
        return await asyncio.wrap_future(self._last)

"""From engine samples to file bytes: leading silence, time stretch, resampling, encoding, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import Executor, Future
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE, AudioChunk
from engine.protocol.samples import FULL_SCALE, to_float32, to_int16
from server.audio.encoders import Format
from server.audio.filters import Resampler, Stretch

AUDIBLE = FULL_SCALE // 1000
"""-60 dBFS: a sample beyond it can be heard."""
PRE_ROLL = SAMPLE_RATE // 50
"""Samples kept before the first audible one when silence is trimmed (20 ms), so that no onset is cut."""


async def from_first_audio(chunks: AsyncIterable[AudioChunk], trim: bool) -> AsyncIterator[NDArray[np.int16]]:
    """The samples of ``chunks``, the first item only once it can be heard.

    What was silent before comes with the first item, or only its last ``PRE_ROLL`` samples when ``trim``.
    An utterance that is silent to its end is one item, whole.
    """
    held: list[NDArray[np.int16]] = []
    audible = False
    async for chunk in chunks:
        if audible:
            yield chunk.samples
            continue
        held.append(chunk.samples)
        audible = bool(_audible(chunk.samples).any())
        if audible:
            yield _from_onset(held) if trim else np.concatenate(held)
    if not audible and held:
        yield np.concatenate(held)


def silence_before(samples: NDArray[np.int16]) -> int:
    """Samples before the first one that can be heard; 0 where there is none."""
    return int(np.argmax(_audible(samples))) if len(samples) else 0


def _audible(samples: NDArray[np.int16]) -> NDArray[np.bool_]:
    return (samples > AUDIBLE) | (samples < -AUDIBLE)


def _from_onset(held: list[NDArray[np.int16]]) -> NDArray[np.int16]:
    samples = np.concatenate(held)
    return samples[max(0, silence_before(samples) - PRE_ROLL) :]


class _Stage(Protocol):
    """Samples in, samples out, some of them later."""

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]: ...

    def flush(self) -> NDArray[np.float32]: ...


class Chain:
    """One file in the making. A stage that would change nothing is not there.

    rate: of the file, in Hz. light: nothing in it is worth a thread.
    """

    def __init__(self, kind: Format, *, speed: float = 1.0, rate: int = SAMPLE_RATE, whole: bool = False) -> None:
        self.rate = kind.rate_for(rate)
        self._stages: list[_Stage] = []
        if speed != 1.0:
            self._stages.append(Stretch(speed, SAMPLE_RATE))
        if self.rate != SAMPLE_RATE:
            self._stages.append(Resampler(SAMPLE_RATE, self.rate))
        self._encoder = kind.encoder(self.rate, whole)
        self.light = kind.light and not self._stages

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """The bytes that these samples complete, which may be none."""
        if not self._stages:
            return self._encoder.encode(samples)
        changed = to_float32(samples)
        for stage in self._stages:
            changed = stage.process(changed)
        return self._encoder.encode(to_int16(changed))

    def finish(self) -> bytes:
        """What was held back, and what stands after the last sample."""
        if not self._stages:
            return self._encoder.finish()
        rest = np.zeros(0, np.float32)
        for stage in self._stages:
            rest = np.concatenate([stage.process(rest), stage.flush()])
        return self._encoder.encode(to_int16(rest)) + self._encoder.finish()

    def close(self) -> None:
        """Free everything, finished or not."""
        self._stages.clear()
        self._encoder.close()


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

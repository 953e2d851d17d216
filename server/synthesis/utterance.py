"""One utterance between the engine and the response."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE, AudioChunk, Completion
from server.audio.pipeline import Rendering, from_first_audio, silence_before
from server.synthesis.admission import Seat
from server.telemetry.record import RequestRecord

_NOTHING = np.zeros(0, np.int16)


class Speech(Protocol):
    """The engine's chunks of one utterance."""

    @property
    def completion(self) -> Completion:
        """How it ended; known once all chunks are taken."""

    def __aiter__(self) -> AsyncIterator[AudioChunk]: ...

    def cancel(self) -> None:
        """Give it up. Void once it has ended."""


class Utterance:
    """A speech stream that is opened by its first sound, given out once, and closed in any case."""

    def __init__(self, stream: Speech, record: RequestRecord, seat: Seat, *, trim: bool) -> None:
        self._stream = stream
        self._record = record
        self._seat = seat
        self._blocks = from_first_audio(stream, trim)
        self._first = _NOTHING

    async def open(self) -> None:
        """Wait for the first sound. Raises EngineError when the engine fails before it."""
        self._first = await self._next()
        self._record.sounded(silence_before(self._first) / SAMPLE_RATE)

    async def samples(self) -> AsyncIterator[NDArray[np.int16]]:
        """Every sample, in the order it is made. Raises EngineError when the engine fails midway."""
        block = self._first
        while len(block):
            self._record.gave(len(block))
            self._seat.gave(len(block) / SAMPLE_RATE / self._record.speed)
            yield block
            block = await self._next()
        self._record.completion = self._stream.completion
        self._seat.spoken = True

    async def encoded(self, rendering: Rendering) -> AsyncGenerator[bytes, None]:
        """The file that ``rendering`` makes of the samples, in non-empty pieces."""
        async for block in self.samples():
            if piece := await rendering.encode(block):
                yield piece
        if tail := await rendering.finish():
            yield tail

    async def _next(self) -> NDArray[np.int16]:
        """The next block of samples; an empty one at the end."""
        asked = time.monotonic()
        try:
            return await anext(self._blocks, _NOTHING)
        finally:
            self._record.engine_seconds += time.monotonic() - asked

    @property
    def completion(self) -> Completion | None:
        """How it ended, once every sample has been given out."""
        return self._record.completion

    @property
    def ending(self) -> dict[str, Any]:
        """How it ended, as clients are told."""
        ended = self.completion
        read, made = (ended.input_tokens, ended.output_tokens) if ended else (0, 0)
        return {
            "finish_reason": ended.finish_reason.value if ended else None,
            "usage": {"input_tokens": read, "output_tokens": made, "total_tokens": read + made},
        }

    def close(self) -> None:
        """Give the engine back what is still running."""
        self._stream.cancel()

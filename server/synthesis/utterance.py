"""One utterance: reads audio from the engine and encodes it for the response."""

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
    """An async iterator over the engine's audio chunks of one utterance."""

    @property
    def completion(self) -> Completion:
        """Finish reason and token counts; available once all chunks are consumed."""

    def __aiter__(self) -> AsyncIterator[AudioChunk]: ...

    def cancel(self) -> None:
        """Abort. No effect once the utterance has ended."""


class Utterance:
    """A speech stream. Call ``open`` first, read it once with ``samples`` or ``encoded``, and always ``close`` it."""

    def __init__(self, stream: Speech, record: RequestRecord, seat: Seat, *, trim: bool) -> None:
        self._stream = stream
        self._record = record
        self._seat = seat
        self._blocks = from_first_audio(stream, trim)
        self._first = _NOTHING

    async def open(self) -> None:
        """Wait for the first audio. Raises EngineError when the engine fails before it."""
        self._first = await self._next()
        self._record.sounded(silence_before(self._first) / SAMPLE_RATE)

    async def samples(self) -> AsyncIterator[NDArray[np.int16]]:
        """Yield blocks of int16 samples in order. Raises EngineError when the engine fails midway."""
        block = self._first
        while len(block):
            self._record.gave(len(block))
            self._seat.gave(len(block) / SAMPLE_RATE / self._record.speed)
            yield block
            block = await self._next()
        self._record.completion = self._stream.completion
        self._seat.spoken = True

    async def encoded(self, rendering: Rendering) -> AsyncGenerator[bytes, None]:
        """Yield the file that ``rendering`` encodes from the samples, in non-empty pieces."""
        async for block in self.samples():
            if piece := await rendering.encode(block):
                yield piece
        if tail := await rendering.finish():
            yield tail

    async def _next(self) -> NDArray[np.int16]:
        """Return the next block of samples; an empty one at the end."""
        asked = time.monotonic()
        try:
            return await anext(self._blocks, _NOTHING)
        finally:
            self._record.engine_seconds += time.monotonic() - asked

    @property
    def completion(self) -> Completion | None:
        """Finish reason and token counts; None until all samples are consumed."""
        return self._record.completion

    @property
    def ending(self) -> dict[str, Any]:
        """The finish reason and usage, as JSON fields for the client."""
        ended = self.completion
        read, made = (ended.input_tokens, ended.output_tokens) if ended else (0, 0)
        return {
            "finish_reason": ended.finish_reason.value if ended else None,
            "usage": {"input_tokens": read, "output_tokens": made, "total_tokens": read + made},
        }

    def close(self) -> None:
        """Abort the utterance if it has not ended."""
        self._stream.cancel()

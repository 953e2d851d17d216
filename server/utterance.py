"""One utterance between the engine and the wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import numpy as np
from numpy.typing import NDArray

from engine.request import Completion
from engine.speech_stream import SpeechStream
from server.audio.encoders import Encoder
from server.audio.onset import from_first_sound
from server.request_log import RequestRecord


class Utterance:
    """A speech stream that is opened by its first sound, given out once, and closed in any case."""

    def __init__(self, stream: SpeechStream, record: RequestRecord, *, trim: bool) -> None:
        self._stream = stream
        self._record = record
        self._blocks = from_first_sound(stream, trim)
        self._first = np.zeros(0, np.float32)

    async def open(self) -> None:
        """Wait for the first sound. Raises EngineError when the engine fails before it."""
        self._first = await anext(self._blocks, self._first)
        self._record.sounded()

    async def samples(self) -> AsyncIterator[NDArray[np.float32]]:
        """Every sample, in the order it is made. Raises EngineError when the engine fails midway."""
        self._record.samples += len(self._first)
        yield self._first
        async for block in self._blocks:
            self._record.samples += len(block)
            yield block
        self._record.completion = self._stream.completion

    async def encoded(self, encoder: Encoder) -> AsyncGenerator[bytes, None]:
        """The file that ``encoder`` makes of the samples, in non-empty pieces."""
        head = encoder.start()
        async for block in self.samples():
            if piece := head + encoder.encode(block):
                yield piece
                head = b""
        if tail := head + encoder.finish():
            yield tail

    @property
    def completion(self) -> Completion | None:
        """How it ended, once every sample has been given out."""
        return self._record.completion

    def close(self) -> None:
        """Give the engine back what is still running."""
        self._stream.cancel()

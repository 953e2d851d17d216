"""One utterance: reads audio from the engine and encodes it for the response."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.protocol.engine import AudioStream
from engine.protocol.request import SAMPLE_RATE, Completion
from server.audio.onset import Onset, from_onset, silence_before
from server.audio.pipeline import AudioPipeline
from server.synthesis.admission_ticket import AdmissionTicket
from server.synthesis.word_timing import Words, WordTiming
from server.telemetry.record import RequestRecord

WordFields = list[dict[str, Any]] | None
"""Words as JSON fields; None where the language is not covered."""
_NO_SAMPLES = np.zeros(0, np.int16)


class Utterance:
    """The audio of one utterance, read once with ``encoded``. Call ``wait_for_first_audio`` first; always ``close`` it.

    Args:
        stream: the engine's audio.
        pipeline: encodes the audio file.
        record: is told what happens.
        ticket: is told how much audio the client receives.
        speed: playback speed of the file.
        onset: how the audio begins.
        timing: times the words of ``stream``; None if the request does not want them.

    Attributes:
        completion: finish reason and token counts; None until all audio is read.
    """

    def __init__(
        self,
        stream: AudioStream,
        pipeline: AudioPipeline,
        record: RequestRecord,
        ticket: AdmissionTicket,
        *,
        speed: float,
        onset: Onset,
        timing: WordTiming | None = None,
    ) -> None:
        self._stream = stream
        self._timing = timing
        self._pipeline = pipeline
        self._record = record
        self._ticket = ticket
        self._speed = speed
        self._blocks = from_onset(stream, onset)
        self._first = _NO_SAMPLES
        self.completion: Completion | None = None

    @property
    def media_type(self) -> str:
        """Media type of the audio file."""
        return self._pipeline.media_type

    @property
    def sample_rate(self) -> int:
        """Sample rate of the audio file in Hz."""
        return self._pipeline.sample_rate

    async def wait_for_first_audio(self) -> None:
        """Wait for the first audio. Raises EngineError when the engine fails before it."""
        self._first = await self._next_block()
        if self._timing is not None:
            self._timing.set_kept(len(self._first))
        silence = silence_before(self._first)
        self._record.set_first_audio(silence / SAMPLE_RATE if silence < len(self._first) else 0.0)

    async def encoded(self) -> AsyncGenerator[bytes, None]:
        """Yield the audio file in non-empty pieces. Raises EngineError when the engine fails midway."""
        async for block in self._samples():
            if piece := await self._pipeline.encode(block):
                yield piece
        if tail := await self._pipeline.finish():
            yield tail

    async def encoded_and_timed(self) -> AsyncGenerator[bytes, None]:
        """Yield the audio file as ``encoded`` does. The times of the words go into the record only."""
        async for piece in self.encoded():
            yield piece
            for _ in self.timed_words():
                pass
        async for _ in self.remaining_words():
            pass

    def timed_words(self) -> Iterator[WordFields]:
        """Yield the words whose times are known by now and were not returned before, in groups, without waiting."""
        for words in self._timing.ready() if self._timing is not None else ():
            yield self._recorded(words)

    async def remaining_words(self) -> AsyncIterator[WordFields]:
        """Yield the words that are left after all audio is read. Nothing if the request does not want them."""
        if self._timing is not None:
            async for words in self._timing.rest():
                yield self._recorded(words)

    def _recorded(self, words: Words) -> WordFields:
        if words is None:
            return None
        self._record.add_words(words)
        return [word.fields() for word in words]

    async def _samples(self) -> AsyncIterator[NDArray[np.int16]]:
        block = self._first
        while len(block):
            self._record.add_samples(len(block))
            self._ticket.add_audio(len(block) / SAMPLE_RATE / self._speed)
            yield block
            block = await self._next_block()
        self.completion = self._record.completion = self._stream.completion
        self._ticket.completed = True

    async def _next_block(self) -> NDArray[np.int16]:
        """Return the next block of samples; an empty one at the end."""
        started = time.monotonic()
        try:
            return await anext(self._blocks, _NO_SAMPLES)
        finally:
            self._record.engine_seconds += time.monotonic() - started

    def completion_fields(self) -> dict[str, Any]:
        """Return the finish reason and the usage, as JSON fields for the client."""
        completion = self.completion
        inputs, outputs = (completion.input_tokens, completion.output_tokens) if completion else (0, 0)
        return {
            "finish_reason": completion.finish_reason.value if completion else None,
            "usage": {"input_tokens": inputs, "output_tokens": outputs, "total_tokens": inputs + outputs},
        }

    def close(self) -> None:
        """Abort the utterance if it has not ended."""
        self._stream.cancel()
        if self._timing is not None:
            self._timing.close()

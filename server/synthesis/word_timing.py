"""Word timestamps of one request: aligns each piece of its speech in a thread, beside the stream."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from engine.protocol.engine import AudioStream
from engine.protocol.request import SAMPLE_RATE, AudioChunk, Completion, FinishReason, SpeechRequest
from server.alignment.aligner import LANGUAGE
from server.alignment.timed_words import WordTime
from server.alignment.worker import align_words
from server.long_text.spoken_piece import SpokenPiece
from server.text.language import text_language

log = logging.getLogger("sonant.requests")

Words = list[WordTime] | None
"""The words of a piece; None where the language is not covered."""


class WordTiming:
    """The word timestamps of one stream. Use it in one event loop.

    It keeps the samples of the current piece, and of ended pieces until they are aligned.
    """

    def __init__(self, threads: Executor, readable: Collection[str], speed: float) -> None:
        """readable: the languages of the checkpoint. speed: of the file, in whose time the words are."""
        self._threads, self._readable, self._speed = threads, readable, speed
        self._trimmed = 0
        self._blocks: deque[NDArray[np.int16]] = deque()
        self._start = self._received = 0
        """The first sample that is kept, and the number of samples received."""
        self._pending: deque[asyncio.Task[Words]] = deque()

    async def follow(self, stream: AudioStream, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        """Yield the chunks of ``stream``, and align each piece as soon as it has ended.

        stream: a SpokenStream, or the stream of ``request``, which is then one piece.
        """
        spoken: deque[SpokenPiece] | None = getattr(stream, "spoken", None)
        async for chunk in stream:
            self._align_all(spoken)
            self._blocks.append(chunk.samples)
            self._received += len(chunk.samples)
            yield chunk
        self._align_all(spoken)
        if spoken is None:
            reason = stream.completion.finish_reason
            if reason is not FinishReason.CANCELLED:
                complete = reason is FinishReason.STOP
                self._align(SpokenPiece(request.text, request.language, 0, self._received, complete))

    def set_kept(self, samples: int) -> None:
        """Record that of all samples received only the last ``samples`` are in the file: the others were trimmed."""
        self._trimmed = self._received - samples

    @property
    def has_pending(self) -> bool:
        """Whether the words of any piece were not returned yet."""
        return bool(self._pending)

    def ready(self) -> Iterator[Words]:
        """Yield the words of each further piece that is aligned by now, in order."""
        while self._pending and self._pending[0].done():
            yield self._pending.popleft().result()

    async def rest(self) -> AsyncIterator[Words]:
        """Wait for the pieces that are left, and yield the words of each, in order."""
        while self._pending:
            yield await self._pending.popleft()

    def close(self) -> None:
        """Cancel what is not aligned yet."""
        for task in self._pending:
            task.cancel()
        self._blocks.clear()

    def _align_all(self, spoken: deque[SpokenPiece] | None) -> None:
        while spoken:
            self._align(spoken.popleft())

    def _align(self, piece: SpokenPiece) -> None:
        samples = self._take(piece.start, piece.end)
        self._pending.append(asyncio.create_task(self._words(piece, samples)))

    def _take(self, start: int, end: int) -> NDArray[np.int16]:
        """Return samples ``start`` to ``end`` of the stream, and drop all before ``end``."""
        kept = np.concatenate([np.zeros(0, np.int16), *self._blocks])
        taken, rest = kept[start - self._start : end - self._start], kept[end - self._start :]
        self._blocks = deque([rest.copy()])
        self._start = end
        return taken

    async def _words(self, piece: SpokenPiece, samples: NDArray[np.int16]) -> Words:
        if text_language(piece.language, piece.text, self._readable) != LANGUAGE:
            return None
        loop = asyncio.get_running_loop()
        try:
            words = await loop.run_in_executor(self._threads, align_words, samples, piece.text, piece.complete)
        except Exception:
            log.exception("the alignment of %d samples failed", len(samples))
            return []
        return [self._in_file(word, piece.start) for word in words]

    def _in_file(self, word: WordTime, start: int) -> WordTime:
        """Return ``word`` of a piece that starts at sample ``start``, in the time of the file."""
        offset = (start - self._trimmed) / SAMPLE_RATE
        begin, end = (max(0.0, time + offset) / self._speed for time in (word.start, word.end))
        return WordTime(word.word, begin, end)


class TimedStream:
    """An AudioStream whose words are timed."""

    def __init__(self, stream: AudioStream, timing: WordTiming, request: SpeechRequest) -> None:
        """Args as for ``WordTiming.follow``."""
        self._stream = stream
        self._chunks = timing.follow(stream, request)

    @property
    def completion(self) -> Completion:
        """Finish reason and token counts; available once all chunks are consumed."""
        return self._stream.completion

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self._chunks

    def cancel(self) -> None:
        """Abort the utterance. No-op once it has ended."""
        self._stream.cancel()

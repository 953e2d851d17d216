"""Word timestamps of one request: aligns its speech with its text in a thread, beside the stream."""

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
from server.alignment.aligner import LANGUAGE, Alignment, english_aligner
from server.alignment.timed_words import WordTime
from server.long_text.spoken_piece import SpokenPiece
from server.text.language import text_language

log = logging.getLogger("sonant.requests")

_STEP = SAMPLE_RATE // 4
"""Samples that are aligned at once. Smaller steps cost more, and larger ones give the words later."""

Words = list[WordTime] | None
"""Further words. Empty for a piece without words, and None for one in a language that is not covered."""


class _TimedPiece:
    """A piece and its alignment, which is made in the aligner's thread."""

    def __init__(self, piece: SpokenPiece) -> None:
        self.piece = piece
        self._alignment: Alignment | None = None
        self._has_words = False

    def align(self, samples: NDArray[np.int16], ended: bool) -> list[Words]:
        """Add samples, and return the words that are known by now, if any. ended: these are the last samples."""
        if self._alignment is None:
            self._alignment = english_aligner().start(self.piece.text or "")
        self._alignment.add(samples)
        words = self._alignment.finish(complete=self.piece.complete) if ended else self._alignment.settled()
        self._has_words = self._has_words or bool(words)
        return [words] if words or (ended and not self._has_words) else []


class WordTiming:
    """The word timestamps of one stream. Use it in one event loop, with one thread.

    It keeps the samples that are not aligned yet, and those of a live piece until its text is complete.
    """

    def __init__(self, thread: Executor, readable: Collection[str], speed: float) -> None:
        """thread: runs one task at a time, in order. readable: the languages of the checkpoint.

        speed: of the file, in whose time the words are.
        """
        self._thread, self._readable, self._speed = thread, readable, speed
        self._trimmed = 0
        self._blocks: deque[NDArray[np.int16]] = deque()
        self._start = self._received = 0
        """The first sample that is kept, and the number of samples received."""
        self._piece: _TimedPiece | None = None
        self._pending: deque[tuple[SpokenPiece, asyncio.Task[list[Words]]]] = deque()

    async def follow(self, stream: AudioStream, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        """Yield the chunks of ``stream``, and align them.

        stream: a SpokenStream, or the stream of ``request``, which is then one piece.
        """
        whole = SpokenPiece(0, request.language, request.text)
        spoken: deque[SpokenPiece] = getattr(stream, "spoken", deque([whole]))
        async for chunk in stream:
            self._advance(spoken)
            self._blocks.append(chunk.samples)
            self._received += len(chunk.samples)
            self._advance(spoken)
            yield chunk
        if stream.completion.finish_reason is FinishReason.CANCELLED:
            return
        whole.end = self._received
        whole.complete = stream.completion.finish_reason is FinishReason.STOP
        self._advance(spoken)

    def set_kept(self, samples: int) -> None:
        """Record that of all samples received only the last ``samples`` are in the file: the others were trimmed."""
        self._trimmed = self._received - samples

    @property
    def has_pending(self) -> bool:
        """Whether any alignment was not returned yet."""
        return bool(self._pending)

    def ready(self) -> Iterator[Words]:
        """Yield the words that are known by now and were not returned before, in order."""
        while self._pending and self._pending[0][1].done():
            piece, task = self._pending.popleft()
            for words in task.result():
                yield self._in_file(piece, words)

    async def rest(self) -> AsyncIterator[Words]:
        """Wait for what is left, and yield further words, in order."""
        while self._pending:
            piece, task = self._pending.popleft()
            for words in await task:
                yield self._in_file(piece, words)

    def close(self) -> None:
        """Cancel what is not aligned yet."""
        for _, task in self._pending:
            task.cancel()
        self._blocks.clear()

    def _advance(self, spoken: deque[SpokenPiece]) -> None:
        """Align what can be aligned by now of the current piece and of those that have begun after it."""
        while self._piece is not None or spoken:
            if self._piece is None:
                self._piece = _TimedPiece(spoken.popleft())
            piece = self._piece.piece
            end = self._received if piece.end is None else piece.end
            if piece.text is None or (piece.end is None and end - max(self._start, piece.start) < _STEP):
                return
            samples = self._take(piece.start, end)
            ended = piece.end is not None
            self._pending.append((piece, asyncio.create_task(self._words(self._piece, samples, ended))))
            if not ended:
                return
            self._piece = None

    def _take(self, start: int, end: int) -> NDArray[np.int16]:
        """Return the kept samples from ``start`` to ``end`` of the stream, and drop all before ``end``."""
        kept = np.concatenate([np.zeros(0, np.int16), *self._blocks])
        taken, rest = kept[max(0, start - self._start) : end - self._start], kept[end - self._start :]
        self._blocks = deque([rest.copy()])
        self._start = end
        return taken

    async def _words(self, timed: _TimedPiece, samples: NDArray[np.int16], ended: bool) -> list[Words]:
        piece = timed.piece
        if text_language(piece.language, piece.text or "", self._readable) != LANGUAGE:
            return [None] if ended else []
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, timed.align, samples, ended)
        except Exception:
            log.exception("the alignment of %d samples failed", len(samples))
            return []

    def _in_file(self, piece: SpokenPiece, words: Words) -> Words:
        """Return ``words`` with times in the file. Before, they are in seconds from the start of ``piece``."""
        if words is None:
            return None
        offset = (piece.start - self._trimmed) / SAMPLE_RATE
        return [
            WordTime(each.word, *(max(0.0, time + offset) / self._speed for time in (each.start, each.end)))
            for each in words
        ]


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

"""Speech for long text and for several speakers: joins several engine utterances into one stream."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.protocol.engine import AudioStream
from engine.protocol.request import CODEBOOKS, AudioChunk, Completion, FinishReason, SpeechRequest
from server.long_text.joints import Joiner
from server.long_text.pace import Pace
from server.long_text.segments import Segment
from server.long_text.sentences import weight
from server.long_text.spoken_piece import SpokenPiece

_NO_CODES = np.zeros((0, CODEBOOKS), np.int16)

Submit = Callable[[SpeechRequest], AudioStream]
"""Starts one utterance: ``Engine.submit``, or a function that also checks its audio. Raises EngineUnavailable."""


@dataclass(slots=True)
class _Piece:
    """A submitted piece. weight: its length in letters. frames: number of frames received so far."""

    stream: AudioStream
    request: SpeechRequest
    pause: float
    weight: int
    frames: int = 0


class LongSpeech:
    """An AudioStream over the chunks of consecutive segments.

    It submits at most one segment ahead, and only when the current one is almost complete. So there is no gap between
    segments, and most of the time the request uses one engine utterance, as any other request does.

    The samples of its chunks differ from those of the engine at the joints (``Joiner``); the codes are the engine's.

    Attributes:
        spoken: the segments that have begun, for the consumer to take.
    """

    def __init__(self, submit: Submit, segments: Iterator[Segment]) -> None:
        self._submit, self._segments = submit, segments
        self._completions: list[Completion] = []
        self._pace = Pace()
        self._joiner = Joiner()
        self._codes = _NO_CODES
        """Codes that were received and not yet passed on."""
        self._samples = 0
        """Number of samples passed on."""
        self.spoken: deque[SpokenPiece] = deque()
        self._upcoming = next(segments, None)
        self._current = self._submit_next()
        self._next: _Piece | None = None

    @property
    def completion(self) -> Completion:
        """The finish reason and the token counts of all segments together. Raises RuntimeError until all have ended.

        The reason is CANCELLED or LENGTH if any segment has it, else STOP.
        """
        if self._current is not None or not self._completions:
            raise RuntimeError("the utterance has not ended")
        return total(self._completions)

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        while (piece := self._current) is not None:
            for silence in self._joiner.pause(piece.pause) if piece.pause else ():
                yield self._chunk(silence)
            spoken = SpokenPiece(self._samples, piece.request.language, piece.request.text)
            self.spoken.append(spoken)
            async for chunk in piece.stream:
                piece.frames += len(chunk.codes)
                self._submit_ahead(piece)
                self._codes = np.concatenate([self._codes, chunk.codes])
                samples = self._joiner.join(chunk.samples, self._pause_after)
                if len(samples):
                    yield self._chunk(samples)
            self._current = self._after(piece)
            spoken.complete = piece.stream.completion.finish_reason is FinishReason.STOP
            spoken.end = self._samples
        if self._upcoming is not None:
            for silence in self._joiner.pause(self._upcoming.pause, last=True):
                yield self._chunk(silence)

    def cancel(self) -> None:
        """Abort. The engine stops working on it within one step. No-op once it has ended."""
        for piece in (self._current, self._next):
            if piece is not None:
                piece.stream.cancel()

    @property
    def _pause_after(self) -> float | None:
        """Seconds of the pause after the current piece; None after the last one."""
        if self._next is not None:
            return self._next.pause
        return None if self._upcoming is None else self._upcoming.pause

    def _chunk(self, samples: NDArray[np.int16]) -> AudioChunk:
        """Return a chunk with the codes that were received since the last one."""
        codes, self._codes = self._codes, _NO_CODES
        self._samples += len(samples)
        return AudioChunk(samples, codes)

    def _submit_ahead(self, piece: _Piece) -> None:
        """Submit the next piece if ``piece`` is almost complete."""
        if self._next is None and self._pace.almost_complete(piece.frames, piece.weight):
            self._next = self._submit_next()

    def _after(self, piece: _Piece) -> _Piece | None:
        """Return the piece after ``piece``, which has ended. None if it was the last one, or was cancelled."""
        completion = piece.stream.completion
        self._completions.append(completion)
        if completion.finish_reason is FinishReason.CANCELLED:
            self._upcoming = None
            return None
        self._pace.add(piece.frames, piece.weight)
        following, self._next = self._next or self._submit_next(), None
        return following

    def _submit_next(self) -> _Piece | None:
        """Submit the next segment to the engine. Return None when there are no more segments with text."""
        segment = self._upcoming
        if segment is None or segment.request is None:
            return None
        request = segment.request
        piece = _Piece(self._submit(request), request, segment.pause, weight(request.text))
        self._upcoming = next(self._segments, None)
        return piece


def total(completions: Sequence[Completion]) -> Completion:
    """Return the finish reason and the token counts of several utterances together."""
    reasons = {each.finish_reason for each in completions}
    by_priority = (FinishReason.CANCELLED, FinishReason.LENGTH)
    return Completion(
        next((reason for reason in by_priority if reason in reasons), FinishReason.STOP),
        sum(each.input_tokens for each in completions),
        sum(each.output_tokens for each in completions),
    )

"""Speech for long text: joins several engine utterances into one stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from engine.protocol.engine import Engine, EngineStream
from engine.protocol.request import AudioChunk, Completion, FinishReason, SpeechRequest
from server.long_text.pieces import weight

_LEAD_FRAMES = 12
"""The next piece is submitted this many frames (about one second) before the estimated end of the current one."""
_FRAMES_PER_LETTER = 0.8
"""Estimated frames per letter until the first piece has ended: 15 letters per second."""


@dataclass(slots=True)
class _Piece:
    """A submitted piece. weight: its length in letters. frames: number of frames received so far."""

    stream: EngineStream
    weight: int
    frames: int = 0


class LongSpeech:
    """An AudioStream over the chunks of consecutive pieces of one text.

    It submits at most one piece ahead, and only when the current piece is almost complete. So there is no gap between
    pieces, and most of the time the request uses one engine utterance, as any other request does.
    """

    def __init__(self, engine: Engine, request: SpeechRequest, pieces: Iterator[str]) -> None:
        self._engine, self._request = engine, request
        self._pieces = enumerate(pieces)
        self._completions: list[Completion] = []
        self._ended_frames = self._ended_weight = 0
        self._current = self._submit_next()
        self._next: _Piece | None = None

    @property
    def completion(self) -> Completion:
        """The finish reason and the token counts of all pieces together. Raises RuntimeError until all have ended.

        The reason is CANCELLED or LENGTH if any piece has it, else STOP.
        """
        if self._current is not None or not self._completions:
            raise RuntimeError("the utterance has not ended")
        reasons = {each.finish_reason for each in self._completions}
        by_priority = (FinishReason.CANCELLED, FinishReason.LENGTH)
        return Completion(
            next((reason for reason in by_priority if reason in reasons), FinishReason.STOP),
            sum(each.input_tokens for each in self._completions),
            sum(each.output_tokens for each in self._completions),
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        while self._current is not None:
            chunk = await anext(self._current.stream, None)
            if chunk is not None:
                self._current.frames += len(chunk.codes)
                self._submit_ahead(self._current)
                return chunk
            self._current = self._after(self._current)
        raise StopAsyncIteration

    def cancel(self) -> None:
        """Abort. The engine stops working on it within one step. No-op once it has ended."""
        for piece in (self._current, self._next):
            if piece is not None:
                piece.stream.cancel()

    def _submit_ahead(self, piece: _Piece) -> None:
        """Submit the next piece if ``piece`` is almost complete."""
        if self._next is None and piece.frames + _LEAD_FRAMES >= self._frames_per_letter * piece.weight:
            self._next = self._submit_next()

    @property
    def _frames_per_letter(self) -> float:
        return self._ended_frames / self._ended_weight if self._ended_weight else _FRAMES_PER_LETTER

    def _after(self, piece: _Piece) -> _Piece | None:
        """Return the piece after ``piece``, which has ended. None if it was the last one, or was cancelled."""
        completion = piece.stream.completion
        self._completions.append(completion)
        if completion.finish_reason is FinishReason.CANCELLED:
            return None
        self._ended_frames += piece.frames
        self._ended_weight += piece.weight
        following, self._next = self._next or self._submit_next(), None
        return following

    def _submit_next(self) -> _Piece | None:
        """Submit the next piece to the engine. Return None when there are no more pieces."""
        number, text = next(self._pieces, (0, None))
        if text is None:
            return None
        sampling = replace(self._request.sampling, seed=seed_of(self._request.sampling.seed, number))
        return _Piece(self._engine.submit(replace(self._request, text=text, sampling=sampling)), weight(text))


def seed_of(seed: int | None, number: int) -> int | None:
    """Return the seed of piece ``number``: the request's own seed for the first, a derived one for the others."""
    if seed is None or number == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1

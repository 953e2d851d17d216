"""Speech for long text: joins several engine utterances into one stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self

from engine.client.stream import SpeechStream
from engine.protocol.request import AudioChunk, Completion, FinishReason, SpeechRequest
from server.long_text.pieces import weight

_LEAD_FRAMES = 12
"""The next piece is submitted this many frames (about one second) before the estimated end of the current one."""
_FRAMES_A_LETTER = 0.8
"""Estimated frames per letter until the first piece has ended: 15 letters per second."""


class Engine(Protocol):
    """The engine that synthesizes each piece."""

    def submit(self, request: SpeechRequest) -> SpeechStream:
        """Submit an utterance. Raises EngineUnavailable while there is no engine."""


@dataclass(slots=True)
class _Piece:
    stream: SpeechStream
    weight: int
    frames: int = 0


class LongSpeech:
    """An async iterator over the chunks of consecutive pieces, with the interface of one SpeechStream.

    It submits at most one piece ahead, and only when the current piece is almost complete. So there is no gap between
    pieces, and most of the time the request uses one engine utterance, as any other request does.
    """

    def __init__(self, engine: Engine, asked: SpeechRequest, pieces: Iterator[str]) -> None:
        self._engine, self._asked = engine, asked
        self._pieces = enumerate(pieces)
        self._ended: list[Completion] = []
        self._said = self._said_weight = 0
        self._ahead: _Piece | None = None
        self._now = self._submitted()

    @property
    def completion(self) -> Completion:
        """The finish reason, and the token and frame counts of all pieces together.

        Raises RuntimeError before all chunks are consumed.
        """
        if self._now is not None or not self._ended:
            raise RuntimeError("the utterance has not ended")
        reasons = {each.finish_reason for each in self._ended}
        worst = (FinishReason.CANCELLED, FinishReason.LENGTH)
        return Completion(
            next((reason for reason in worst if reason in reasons), FinishReason.STOP),
            sum(each.input_tokens for each in self._ended),
            sum(each.output_tokens for each in self._ended),
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        while self._now is not None:
            chunk = await anext(self._now.stream, None)
            if chunk is not None:
                self._now.frames += len(chunk.codes)
                self._look_ahead(self._now)
                return chunk
            self._now = self._after(self._now)
        raise StopAsyncIteration

    def cancel(self) -> None:
        """Abort. The engine stops working on it within one step. No effect once it has ended."""
        for piece in (self._now, self._ahead):
            if piece is not None:
                piece.stream.cancel()

    def _look_ahead(self, piece: _Piece) -> None:
        if self._ahead is None and piece.frames + _LEAD_FRAMES >= self._frames_a_letter * piece.weight:
            self._ahead = self._submitted()

    @property
    def _frames_a_letter(self) -> float:
        return self._said / self._said_weight if self._said_weight else _FRAMES_A_LETTER

    def _after(self, piece: _Piece) -> _Piece | None:
        """Return the piece after ``piece``, which has ended. None if it was the last one, or was cancelled."""
        ended = piece.stream.completion
        self._ended.append(ended)
        if ended.finish_reason is FinishReason.CANCELLED:
            return None
        self._said += piece.frames
        self._said_weight += piece.weight
        following, self._ahead = self._ahead or self._submitted(), None
        return following

    def _submitted(self) -> _Piece | None:
        """Submit the next piece to the engine. Return None when there are no more pieces."""
        number, text = next(self._pieces, (0, None))
        if text is None:
            return None
        sampling = replace(self._asked.sampling, seed=seed_of(self._asked.sampling.seed, number))
        return _Piece(self._engine.submit(replace(self._asked, text=text, sampling=sampling)), weight(text))


def seed_of(seed: int | None, number: int) -> int | None:
    """Return the seed of piece ``number``: the request's own seed for the first, a derived one for the others."""
    if seed is None or number == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1

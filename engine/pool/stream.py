"""The stream of a request to a pool: until its audio is audible, it moves to another engine when its engine is lost."""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple, Protocol, Self

from engine.client.stream import BUSY, SpeechStream
from engine.errors import EngineError, EngineFailed, EngineUnavailable, PoisonRequest
from engine.pool.member import PoolMember
from engine.protocol.engine import OnEngine
from engine.protocol.request import AudioChunk, Completion, FinishReason, SpeechRequest
from engine.protocol.samples import has_audible

LOST = "engine_lost"
"""Error code of requests whose engine process ended or was killed."""
_MAX_TRIES = 2
"""Number of engines that may be lost with a request, and number of times that models may fail on it."""
_log = logging.getLogger(__name__)


class Placement(NamedTuple):
    """A request that was submitted to an engine."""

    member: PoolMember
    stream: SpeechStream


class Dispatcher(Protocol):
    """The part of ``EnginePool`` that its streams call."""

    def place(self, request: SpeechRequest, *, moved: bool) -> Placement | None:
        """Submit ``request`` to an engine. Return None when no engine can take it now. Raises EngineUnavailable."""

    async def wait_to_place(self, stream: PooledStream) -> Placement | None:
        """Wait until ``stream.place`` succeeds, or return None when it is cancelled. Raises EngineError."""

    def add_unheard(self, member: PoolMember, stream: PooledStream) -> None:
        """Add a stream of ``member`` that may still be moved."""

    def remove_unheard(self, member: PoolMember, stream: PooledStream) -> None:
        """Remove a stream that may no longer be moved."""

    def wake_waiting(self) -> None:
        """Make the streams that wait for an engine check whether they are cancelled."""


class PooledStream:
    """An EngineStream that holds silent chunks back until audible audio has arrived.

    Before that, nothing of the utterance was passed on, so it is submitted again when its engine is lost, stops
    answering or fails it: to another engine, or to the same one after its restart. A live request is submitted again
    with all text that was appended. A request that loses two engines, or on which models fail twice, is not tried
    again.
    """

    def __init__(self, dispatcher: Dispatcher, request: SpeechRequest, on_engine: OnEngine) -> None:
        """Submit ``request`` if an engine can take it now; else the first chunk waits for one."""
        self._dispatcher, self._request, self._on_engine = dispatcher, request, on_engine
        self._texts: list[tuple[str, bool]] = []
        """The text that was appended, in order, to append it again."""
        self._held: deque[AudioChunk] = deque()
        self._losses = self._model_failures = 0
        self._heard = self._cancelled = False
        self._ended = False
        self._member: PoolMember | None = None
        self._stream: SpeechStream | None = None
        self._set_placement(self.place())

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled before it ended."""
        return self._cancelled

    @property
    def _moved(self) -> bool:
        return self._losses + self._model_failures > 0

    @property
    def completion(self) -> Completion:
        """How the utterance ended. Raises RuntimeError until the iteration has ended."""
        if self._stream is None:
            if self._cancelled:
                return Completion(FinishReason.CANCELLED, 0, 0)
            raise RuntimeError("the utterance has not ended")
        return self._stream.completion

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        if self._heard and not self._held and self._stream is not None:
            return await anext(self._stream)
        while not (self._heard or self._ended):
            await self._receive()
        if self._held:
            return self._held.popleft()
        raise StopAsyncIteration

    def append(self, piece: str, *, last: bool = False) -> None:
        """Append text to a live request; ``last`` ends the text. Never waits. Raises EngineUnavailable."""
        if not self._heard:
            self._texts.append((piece, last))
        try:
            if self._stream is not None:
                self._stream.append(piece, last=last)
        except EngineUnavailable as error:
            if self._heard or error.code == BUSY:
                raise
            # The engine process has ended, and the stream is about to move with all text.

    def cancel(self) -> None:
        """Abort the utterance. No-op once it has ended."""
        if self._ended:
            return
        self._cancelled = True
        self._settle()
        if self._stream is not None:
            self._stream.cancel()
        else:
            self._dispatcher.wake_waiting()

    def place(self) -> Placement | None:
        """Submit the request to an engine, with the appended text. Return None when no engine can take it now."""
        placement = self._dispatcher.place(self._request, moved=self._moved)
        if placement is not None:
            try:
                for piece, last in self._texts:
                    placement.stream.append(piece, last=last)
            except EngineUnavailable as error:
                placement.stream.cancel()
                if error.code == BUSY:
                    raise
                return None  # the engine process has just ended
        return placement

    def move(self) -> None:
        """Abort the utterance on its engine, which does not answer, and submit it to another one."""
        if self._stream is not None:
            self._stream.abandon(EngineFailed("the engine stopped answering", code=LOST))

    async def _receive(self) -> None:
        """Receive a chunk or the end, or submit the request again. Raises EngineError if it cannot be moved."""
        if self._stream is None:
            self._set_placement(await self._dispatcher.wait_to_place(self))
            self._ended = self._stream is None
            return
        try:
            chunk = await anext(self._stream, None)
        except EngineFailed as error:
            self._handle_failure(error)
            return
        except EngineError:
            self._settle()
            raise
        if chunk is None:
            self._ended = True
            self._settle()
            return
        self._held.append(chunk)
        if has_audible(chunk.samples):
            self._heard = True
            self._settle()

    def _handle_failure(self, error: EngineFailed) -> None:
        """Detach the stream from its engine, so that it is submitted again. Raises EngineFailed after the last try."""
        self._settle()
        if self._cancelled:
            self._ended, self._stream = True, None
            return
        if error.code == LOST:
            self._losses += 1
        else:
            self._model_failures += 1
        if self._model_failures >= _MAX_TRIES:
            raise error
        if self._losses >= _MAX_TRIES:
            raise PoisonRequest(
                "two engines were lost while they processed this request, so it is not tried again; change the request"
            ) from None
        name = "" if self._member is None else self._member.label
        _log.warning("moving a request from engine %s: %s", name, error)
        self._held.clear()
        self._stream = self._member = None

    def _set_placement(self, placement: Placement | None) -> None:
        if placement is None:
            return
        self._member, self._stream = placement
        self._dispatcher.add_unheard(self._member, self)
        self._on_engine(self._member.name, self._moved)

    def _settle(self) -> None:
        """Give up moving: the utterance is audible, or has ended."""
        if self._member is not None:
            self._dispatcher.remove_unheard(self._member, self)
        if self._heard or self._ended:
            self._texts.clear()

"""Live speech that is checked while it is made. It is heard at once, so a fault ends it."""

from __future__ import annotations

from typing import Self

from engine.protocol.engine import EngineStream
from engine.protocol.request import AudioChunk, Completion, SpeechRequest
from server.guards.check import Fault, PieceCheck
from server.guards.stream import speech_failed
from server.telemetry.record import RequestRecord


class CheckedStream:
    """An EngineStream that raises ApiError ``speech_failed`` when its speech is faulty.

    Args:
        stream: the engine's stream of ``request``, a live one.
        check: its check, with the text that the request began with.
        record: is told of the fault.
    """

    def __init__(self, stream: EngineStream, request: SpeechRequest, check: PieceCheck, record: RequestRecord) -> None:
        self._stream, self._request, self._check, self._record = stream, request, check, record

    @property
    def completion(self) -> Completion:
        """How the utterance ended. Raises RuntimeError until the iteration has ended."""
        return self._stream.completion

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        chunk = await anext(self._stream, None)
        if chunk is None:
            self._fail_on(self._check.end(self._stream.completion.finish_reason))
            raise StopAsyncIteration
        self._fail_on(self._check.add(chunk))
        return chunk

    def append(self, piece: str, *, last: bool = False) -> None:
        """Append text; ``last`` ends the text. Never waits. Raises EngineUnavailable."""
        self._check.extend(piece)
        self._stream.append(piece, last=last)

    def cancel(self) -> None:
        """Abort. No-op once the utterance has ended."""
        self._stream.cancel()

    def _fail_on(self, fault: Fault | None) -> None:
        if fault is not None and fault is not Fault.LONG:
            self._stream.cancel()
            self._record.fault = fault.value
            raise speech_failed(fault, 1, self._request)

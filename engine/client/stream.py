"""The client's side of one request: its records in order, decoded to audio chunks. Imports no torch."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Self

from engine.client.process import EngineProcess
from engine.errors import EngineError, EngineFailed, EngineUnavailable
from engine.protocol.messages import text_delta
from engine.protocol.request import AudioChunk, Completion
from engine.transfer import Kind, LinkFull, Record, TransferError


def unreachable(error: TransferError) -> EngineUnavailable:
    """Return what a caller is told whose record could not be sent to the engine."""
    if isinstance(error, LinkFull):
        return EngineUnavailable(f"the engine is too far behind to take more: {error}", code="engine_busy")
    return EngineUnavailable(f"the engine cannot be reached: {error}")


class ResponseQueue:
    """The records of one request, in order, until its terminal one.

    It enters itself among ``open_requests`` and leaves when the request is over. Used in the client's event loop.
    """

    def __init__(self, number: int, worker: EngineProcess, open_requests: MutableMapping[int, ResponseQueue]) -> None:
        self.number = number
        self._worker, self._open_requests = worker, open_requests
        self._records: asyncio.Queue[Record | EngineError] = asyncio.Queue()
        self._unwanted = False
        open_requests[number] = self

    def put(self, record: Record) -> None:
        """A record has come. Data that comes after ``abandon`` is dropped."""
        if record.kind in (Kind.END, Kind.FAIL):
            self.close()
            self._records.put_nowait(record)
        elif self._unwanted:
            self._worker.audio.cancel(self.number)
        elif record.kind is Kind.DATA:
            self._records.put_nowait(record)

    def fail(self, error: EngineError) -> None:
        """No terminal record will come."""
        self.close()
        self._records.put_nowait(error)

    async def next(self) -> Record:
        """The next DATA or END. Raises the error of a FAIL. After the terminal record it is always that one."""
        record = await self._records.get()
        if isinstance(record, EngineError):
            self._records.put_nowait(record)
            raise record.with_traceback(None)
        if record.kind is not Kind.DATA:
            self._records.put_nowait(record)
        if record.kind is Kind.FAIL:
            if record.payload:
                raise EngineError.from_bytes(record.payload)
            raise EngineFailed("the engine process ended unexpectedly", code="engine_lost")
        return record

    async def ending(self) -> bytes:
        """The END's payload, of a request that is answered by that alone. Gives the request up when cancelled."""
        try:
            record = await self.next()
            while record.kind is not Kind.END:
                record = await self.next()
        except asyncio.CancelledError:
            self.abandon()
            raise
        return record.payload

    def release(self, record: Record) -> None:
        """A DATA record was taken: its producer may send as much again."""
        self._worker.taken.add(self.number, record.units)

    def tell(self, payload: bytes) -> None:
        """Send more of the request. Void once it is over."""
        if not self._unwanted and self.number in self._open_requests:
            self._worker.requests.send(self.number, payload, 0)

    def abandon(self) -> None:
        """Nobody waits for the answer any more. The terminal record still comes, and closes the inbox."""
        if not self._unwanted and self.number in self._open_requests:
            self._unwanted = True
            while not self._records.empty():
                self._records.get_nowait()
            self._worker.requests.fail(self.number)
            self._worker.audio.cancel(self.number)

    def close(self) -> None:
        """The request is over."""
        if self._open_requests.pop(self.number, None) is not None and not self._unwanted:
            self._worker.requests.end(self.number)


class SpeechStream:
    """The chunks of an utterance, in order, as they are made: an asynchronous iterator of AudioChunk.

    Taking a chunk lets the engine make another. A caller that stops taking slows its own utterance and no other, but
    keeps its place in the engine: it should cancel. After ``cancel`` the iteration ends, as CANCELLED unless it was
    over already. Raises EngineError where the utterance fails.
    """

    def __init__(self, responses: ResponseQueue) -> None:
        self._inbox = responses
        self._completion: Completion | None = None

    @property
    def completion(self) -> Completion:
        """How the utterance ended; known once all chunks are taken."""
        if self._completion is None:
            raise RuntimeError("the utterance has not ended")
        return self._completion

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        if self._completion is not None:
            raise StopAsyncIteration
        record = await self._inbox.next()
        if record.kind is Kind.END:
            self._completion = Completion.from_bytes(record.payload)
            raise StopAsyncIteration
        self._inbox.release(record)
        return AudioChunk.from_bytes(record.payload, record.units)

    def append(self, piece: str, *, last: bool = False) -> None:
        """More text of a live request, in pieces of any length; ``last`` ends it. Void once the utterance has ended.

        Never waits. Raises EngineUnavailable where the engine cannot be reached, or takes no more.
        """
        try:
            self._inbox.tell(text_delta(piece, last=last))
        except TransferError as error:
            raise unreachable(error) from error

    def cancel(self) -> None:
        """Give the utterance up; the engine is free of it within a step. Void once it has ended."""
        self._inbox.abandon()

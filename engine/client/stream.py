"""The client's side of one request: its records in order, decoded to audio chunks. Imports no torch."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Self

from engine.client.links import EngineLinks
from engine.errors import EngineError, EngineFailed, EngineUnavailable
from engine.protocol.messages import pack_text_delta
from engine.protocol.request import AudioChunk, Completion
from engine.transfer import Kind, LinkFull, Record, TransferError

BUSY = "engine_busy"
"""Error code of requests that do not fit in the engine's request queue."""


def unreachable_error(error: TransferError) -> EngineUnavailable:
    """Return the error for a caller whose record could not be sent to the engine."""
    if isinstance(error, LinkFull):
        return EngineUnavailable(f"the engine's request queue is full: {error}; retry later", code=BUSY)
    return EngineUnavailable(f"the engine cannot be reached: {error}; retry later")


class ResponseQueue:
    """A queue of the records of one request, in order, up to its terminal record.

    It adds itself to ``open_requests``, and removes itself when the request is over. Use it in the client's event loop.
    """

    def __init__(self, number: int, links: EngineLinks, open_requests: MutableMapping[int, ResponseQueue]) -> None:
        self.number = number
        self._links, self._open_requests = links, open_requests
        self._records: asyncio.Queue[Record | EngineError] = asyncio.Queue()
        self._aborted = False
        open_requests[number] = self

    def put(self, record: Record) -> None:
        """Add a received record. After ``abort``, drop everything but the terminal record."""
        if record.kind in (Kind.END, Kind.FAIL):
            self.close()
            self._records.put_nowait(record)
        elif self._aborted:
            self._links.audio.cancel(self.number)
        elif record.kind is Kind.DATA:
            self._records.put_nowait(record)

    def fail(self, error: EngineError) -> None:
        """End the request with ``error``, because no terminal record will arrive."""
        self.close()
        self._records.put_nowait(error)

    async def next(self) -> Record:
        """Return the next DATA or END record, or raise the error of a FAIL record.

        After the terminal record, every further call repeats its result.
        """
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

    async def wait_for_end(self) -> bytes:
        """Return the payload of the END record, for a request that needs no DATA. Aborts the request if cancelled."""
        try:
            record = await self.next()
            while record.kind is not Kind.END:
                record = await self.next()
        except asyncio.CancelledError:
            self.abort()
            raise
        return record.payload

    def release(self, record: Record) -> None:
        """Return the credit of a consumed DATA record to its producer."""
        self._links.deferred.release(self.number, record.units)

    def send(self, payload: bytes) -> None:
        """Send more data of the request. No-op once the request is over."""
        if not self._aborted and self.number in self._open_requests:
            self._links.requests.send(self.number, payload, 0)

    def abort(self) -> None:
        """Abort the request and discard its queued records. Its terminal record still arrives and closes the queue."""
        if not self._aborted and self.number in self._open_requests:
            self._aborted = True
            while not self._records.empty():
                self._records.get_nowait()
            self._links.requests.fail(self.number)
            self._links.audio.cancel(self.number)

    def abandon(self, error: EngineError) -> None:
        """Abort the request and raise ``error`` to its reader. No-op once the request is over."""
        if not self._aborted and self.number in self._open_requests:
            self.abort()
            self._records.put_nowait(error)

    def close(self) -> None:
        """Remove the request from ``open_requests``. Also end its request stream, unless it was aborted."""
        if self._open_requests.pop(self.number, None) is not None and not self._aborted:
            self._links.deferred.end(self.number)


class SpeechStream:
    """An asynchronous iterator over the AudioChunks of an utterance, in order, while the engine produces them.

    Each chunk that the caller takes returns its credit to the engine (back-pressure). A caller that stops taking
    chunks pauses only its own utterance, which still occupies a slot in the engine. Such a caller should cancel.
    After ``cancel``, the iteration ends with the finish reason CANCELLED, unless the utterance had already ended.
    Raises EngineError if the utterance fails.
    """

    def __init__(self, responses: ResponseQueue) -> None:
        self._responses = responses
        self._completion: Completion | None = None

    @property
    def completion(self) -> Completion:
        """How the utterance ended. Raises RuntimeError until the iteration has ended."""
        if self._completion is None:
            raise RuntimeError("the utterance has not ended")
        return self._completion

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        if self._completion is not None:
            raise StopAsyncIteration
        record = await self._responses.next()
        if record.kind is Kind.END:
            self._completion = Completion.from_bytes(record.payload)
            raise StopAsyncIteration
        self._responses.release(record)
        return AudioChunk.from_bytes(record.payload, record.units)

    def append(self, piece: str, *, last: bool = False) -> None:
        """Append text to a live request, in pieces of any length; ``last`` ends the text.

        No-op once the utterance has ended. Never waits. Raises EngineUnavailable if the engine cannot be reached or
        its request queue is full.
        """
        try:
            self._responses.send(pack_text_delta(piece, last=last))
        except TransferError as error:
            raise unreachable_error(error) from error

    def cancel(self) -> None:
        """Abort the utterance. The engine frees its slot within one step. No-op once the utterance has ended."""
        self._responses.abort()

    def abandon(self, error: EngineError) -> None:
        """Abort the utterance and raise ``error`` to its reader. No-op once the utterance has ended."""
        self._responses.abandon(error)

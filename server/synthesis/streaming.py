"""Speech responses: raw chunks, server-sent events, or one whole body."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, aclosing, nullcontext, suppress
from typing import Any

from sse_starlette import JSONServerSentEvent, ServerSentEvent
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from engine.errors import EngineError
from server.audio.pipeline import Rendering
from server.errors import ApiError, ClientDisconnected, failure_of
from server.http.disconnect import cancel_on_disconnect
from server.http.response_framing import TRAILERS
from server.synthesis.admission import Seat
from server.synthesis.utterance import Utterance
from server.telemetry.record import RequestRecord

log = logging.getLogger("sonant.requests")

MEDIA_TYPE = "text/event-stream"

_PING = ServerSentEvent(comment="ping", sep="\n").encode()
_PING_SECONDS = 2


async def speech_events(utterance: Utterance, rendering: Rendering, record: RequestRecord) -> AsyncIterator[bytes]:
    """Yield the audio file as delta events, then a done event with the usage; on a failure, an error event."""
    try:
        async for piece in utterance.encoded(rendering):
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
        yield _event({"type": "speech.audio.done", **utterance.ending})
    except Exception as error:
        if not isinstance(error, EngineError):
            log.exception("id=%s an unexpected failure", record.id)
        record.failed(error)
        yield error_event(error)


async def with_pings(events: AsyncIterator[bytes], seconds: float = _PING_SECONDS) -> AsyncGenerator[bytes, None]:
    """Yield ``events``, and an SSE comment whenever the next event takes longer than ``seconds``.

    The comments keep proxies from closing an idle connection. Closing this generator early cancels the pending event.
    """
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            await asyncio.wait({coming}, timeout=seconds)
            if not coming.done():
                yield _PING
                continue
            event = coming.result()
            if event is None:
                return
            yield event
            coming = asyncio.ensure_future(anext(events, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def error_event(error: Exception) -> bytes:
    """Return the event that reports ``error`` to the client. It is the last event of its stream."""
    return _event({"type": "error", **failure_of(error).body()})


def _event(data: dict[str, Any]) -> bytes:
    return JSONServerSentEvent(data, event=data["type"], sep="\n").encode()


FINISH_REASON = "X-Finish-Reason"
"""Header with ``stop``, or ``length`` when the speech was cut at its length limit."""
_LAST_SECONDS = 5.0
"""Timeout for the error event that ends a stream: the client must first read what was sent before."""


async def whole_audio(utterance: Utterance, rendering: Rendering) -> Response:
    """Return the complete utterance as one body with Content-Length and X-Finish-Reason."""
    body = b"".join([piece async for piece in utterance.encoded(rendering)])
    headers = {**_headers(rendering), FINISH_REASON: utterance.ending["finish_reason"]}
    return Response(body, media_type=rendering.media_type, headers=headers)


def _headers(rendering: Rendering) -> dict[str, str]:
    return {
        "X-Sample-Rate": str(rendering.sample_rate),
        "X-Channels": "1",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }


class Streamed(Response):
    """A response that sends each of ``pieces`` as soon as it is available.

    A failure midway closes the connection without a clean end of the body, so the client can detect it.

    Args:
        pieces: the body.
        held: closed when the response ends.
        patience: seconds after which a client that reads nothing counts as disconnected.
        seat: measures how long the client kept the engine waiting. When it is evicted, the stream ends as after a
            failure.
        error_event: makes the last piece of a stream whose seat was evicted. Without it nothing more is sent.

    Attributes:
        trailer: name of the header that follows the body if the client accepts trailers.
    """

    trailer: str | None = None

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: dict[str, str],
        record: RequestRecord,
        held: ExitStack,
        patience: float,
        seat: Seat | None = None,
        error_event: Callable[[Exception], bytes] | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)
        self._pieces = pieces
        self._record = record
        self._held = held
        self._patience = patience
        self._seat = seat
        self._error_event = error_event
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Returning before the last body message makes uvicorn close the connection."""
        trailing = self.trailer is not None and TRAILERS in scope.get("extensions", {})
        try:
            with self._held, nullcontext() if self._seat is None else self._seat.evictable():
                await cancel_on_disconnect(receive, self._send_all(send, trailing))
        except (ClientDisconnected, EngineError) as error:
            self._record.failed(error)
        except ApiError as eviction:
            if not self._begun:
                raise
            self._record.failed(eviction)
            if self._error_event is not None:
                await self._send_last(send, self._error_event(eviction))

    def trailer_value(self) -> str:
        """Return the value of ``trailer``. Called once all pieces are sent."""
        raise NotImplementedError

    async def _send_all(self, send: Send, trailing: bool) -> None:
        try:
            async with asyncio.timeout(None) as stalled, aclosing(self._pieces) as pieces:
                begin = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                if trailing:
                    announced = (b"trailer", str(self.trailer).encode())
                    begin |= {"headers": [*self.raw_headers, announced], "trailers": True}
                await self._send(send, begin, stalled)
                async for piece in pieces:
                    await self._send(send, {"type": "http.response.body", "body": piece, "more_body": True}, stalled)
                await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False}, stalled)
                if trailing:
                    header = (str(self.trailer).lower().encode(), self.trailer_value().encode())
                    await self._send(send, {"type": TRAILERS, "headers": [header]}, stalled)
        except TimeoutError:
            if not stalled.expired():
                raise
            raise ClientDisconnected from None

    async def _send_last(self, send: Send, piece: bytes) -> None:
        """End the stream with ``piece`` if the client reads it within the timeout. The seat is already released."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, message: Message, stalled: asyncio.Timeout) -> None:
        clock = asyncio.get_running_loop().time
        begun = clock()
        stalled.reschedule(begun + self._patience)
        if self._seat is not None:
            self._seat.client_blocks()
        await send(message)
        if self._seat is not None:
            self._seat.client_resumes()
        stalled.reschedule(None)
        self._begun = True
        self._record.held_up(clock() - begun)


class StreamedSpeech(Streamed):
    """A streamed speech response. ``media_type`` defaults to that of ``rendering``."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        rendering: Rendering,
        record: RequestRecord,
        held: ExitStack,
        patience: float,
        seat: Seat,
        media_type: str | None = None,
        error_event: Callable[[Exception], bytes] | None = None,
    ) -> None:
        headers = _headers(rendering)
        media_type = media_type or rendering.media_type
        super().__init__(pieces, media_type, headers, record, held, patience, seat, error_event)
        if error_event is None:  # server-sent events carry the finish reason themselves
            self.trailer = FINISH_REASON

    def trailer_value(self) -> str:
        """Return the finish reason."""
        ended = self._record.completion
        assert ended is not None, "all pieces are sent"
        return ended.finish_reason.value

"""Streamed responses: each piece of the body is sent as soon as it is available."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.errors import ClientDisconnected
from server.http.disconnect import cancel_on_disconnect
from server.http.response_framing import TRAILERS
from server.synthesis.admission_ticket import AdmissionTicket
from server.telemetry.record import RequestRecord

_LAST_PIECE_SECONDS = 5.0
"""Timeout for the last piece of an evicted stream: the client must first read what was sent before."""

Headers = list[tuple[bytes, bytes]]
Trailer = tuple[str, Callable[[], str]]
"""Name of a header that follows the body, and the function that returns its value once the body is sent."""


class ResponseWriter:
    """Writes one streamed response. If an error ends it early, uvicorn closes the connection without a clean end.

    Args:
        send: ASGI's send.
        record: is told how long the client blocked writes.
        stall_seconds: a write that blocks for longer raises ClientDisconnected.
        ticket: is told when the client keeps the engine waiting.

    Attributes:
        started: whether the status line was sent. Errors can then no longer have a status of their own.
    """

    def __init__(
        self, send: Send, record: RequestRecord, stall_seconds: float, ticket: AdmissionTicket | None = None
    ) -> None:
        self._send = send
        self._record = record
        self._stall_seconds = stall_seconds
        self._ticket = ticket
        self.started = False

    async def write(
        self, headers: Headers, pieces: AsyncGenerator[bytes, None], trailer: Trailer | None = None
    ) -> None:
        """Send a response with status 200. Raises ClientDisconnected when the client stops reading.

        trailer: only for connections that accept trailers.
        """
        begin: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": headers}
        if trailer is not None:
            begin |= {"headers": [*headers, (b"trailer", trailer[0].encode())], "trailers": True}
        try:
            async with asyncio.timeout(None) as timeout, aclosing(pieces):
                self.started = True
                await self._write(begin, timeout)
                async for piece in pieces:
                    await self._write({"type": "http.response.body", "body": piece, "more_body": True}, timeout)
                await self._write({"type": "http.response.body", "body": b"", "more_body": False}, timeout)
                if trailer is not None:
                    header = (trailer[0].lower().encode(), trailer[1]().encode())
                    await self._write({"type": TRAILERS, "headers": [header]}, timeout)
        except TimeoutError:
            if not timeout.expired():
                raise
            raise ClientDisconnected from None

    async def write_last(self, piece: bytes) -> None:
        """Send the last ``piece`` of a stream that was cut, if the client reads it within a few seconds.

        The response stays incomplete, so the connection breaks after it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_PIECE_SECONDS):
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _write(self, message: Message, timeout: asyncio.Timeout) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        timeout.reschedule(started + self._stall_seconds)
        if self._ticket is not None:
            self._ticket.begin_client_wait()
        await self._send(message)
        if self._ticket is not None:
            self._ticket.end_client_wait()
        timeout.reschedule(None)
        self._record.add_backpressure(clock() - started)


class StreamedResponse(Response):
    """A response that sends each of ``pieces`` as soon as it is available."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: dict[str, str],
        record: RequestRecord,
        stall_seconds: float,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)
        self._pieces = pieces
        self._record = record
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Returns early when the client disconnects."""
        writer = ResponseWriter(send, self._record, self._stall_seconds)
        try:
            await cancel_on_disconnect(receive, writer.write(self.raw_headers, self._pieces))
        except ClientDisconnected as error:
            self._record.failed(error)

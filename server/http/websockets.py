"""WebSocket connections: limits, and the common error response for failed handshakes."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from typing_extensions import override
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from server.errors import ApiError, Failure, failure_of
from server.http.body_budget import SMALL_BODY_BYTES, BodyAccount, BodyBudget
from server.http.clients import address_key
from server.http.closing import LingeringClose
from server.http.connection_table import ConnectionTable
from server.http.uvicorn_hooks import WebSocketsSansIOProtocol
from server.telemetry.request_log import new_request_id

_CLOSE_SECONDS = 2.0
"""Timeout for the client to answer a close frame."""
_DATA_OPCODES = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})
_RECEIVE_BYTES = 8 * 1024
"""What asyncio reads from a socket at a time: tiny frames cost the most, and must not hold up the event loop."""
_FRAGMENT_BYTES = 64
"""Overhead of a message fragment in addition to its data, so that endless empty fragments also count."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's protocol with limits on the memory it uses. It also responds to a handshake that cannot be parsed.

    ``uvicorn_hooks`` lists what it uses of uvicorn.

    Attributes:
        open_connections: the open connections.
        budget: counts the bytes of messages.
        closed: set when the connection is closed.
    """

    conn: _CountingProtocol
    open_connections: ConnectionTable
    budget: BodyBudget

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _CountingProtocol(max_size=self.config.ws_max_size, logger=logging.getLogger("uvicorn.error"))
        self.close_timeout = _CLOSE_SECONDS
        self.closed = asyncio.Event()
        self._account: BodyAccount | None = None
        self._delayed_pong = b""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.max_size = _RECEIVE_BYTES  # type: ignore[attr-defined]
        super().connection_made(transport)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(self.conn.reject(400, str(self.conn.handshake_exc)).serialize())
            self.transport.close()
        self._count_bytes()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.remove(self.transport)
        if self._account is not None:
            self._account.close()
        super().connection_lost(exc)
        self.closed.set()

    @override
    def handle_ping(self) -> None:
        """Answer a ping. Under back-pressure keep only the pong to the latest ping (RFC 6455, 5.5.3).

        Pongs that are written in spite of back-pressure would accumulate without limit.
        """
        if self.writable.is_set():
            super().handle_ping()
        else:
            self._delayed_pong = b"".join(self.conn.data_to_send())

    @override
    def resume_writing(self) -> None:
        """Send the delayed pong: the client reads again."""
        if self._delayed_pong and not self.close_sent and not self.transport.is_closing():
            self.transport.write(self._delayed_pong)
        self._delayed_pong = b""
        super().resume_writing()

    def _count_bytes(self) -> None:
        """Charge the bytes of the client's messages to the budget. A message that exceeds it ends the session."""
        if self._account is None:
            self._account = self.budget.account(address_key(self.client[0] if self.client else ""))
        try:
            self._account.resize(self.conn.buffered_bytes)
        except ApiError as error:
            self._end_session(error)

    def _end_session(self, error: ApiError) -> None:
        """Send an error event and close the session; abort the connection if the session is not open."""
        if not self.handshake_complete or self.close_sent or self.conn.state is not State.OPEN:
            self.transport.abort()
            return
        self.conn.send_text(json.dumps({"type": "error", **failure_of(error).body()}).encode())
        self.conn.send_close(CloseCode.TRY_AGAIN_LATER)
        for data in self.conn.data_to_send():
            self.transport.write(data)
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.TRY_AGAIN_LATER})
        self.close_timer = LingeringClose(self.transport, self, _CLOSE_SECONDS).timer

    @override
    def send_receive_event_to_app(self) -> None:
        """Pass a complete message to the application.

        Text that is not UTF-8 ends the session with close code 1007. uvicorn would log it as a server error, and would
        raise if the client's close frame has arrived with it.
        """
        if self.curr_msg_data_type == "bytes" or _is_utf8(b"".join(self.frames)):
            super().send_receive_event_to_app()
            return
        self.frames = []
        if self.conn.state is State.OPEN:  # otherwise the client's own close frame is next
            self.conn.send_close(CloseCode.INVALID_DATA)
            self.handle_parser_exception()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _CountingProtocol(ServerProtocol):
    """websockets' protocol. It also counts the bytes of messages in its buffers and in those of the application."""

    _partial_frame = 0
    _partial_message = 0
    _large_message = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the incomplete frame and message, and of the last large message, which the session keeps."""
        return self._partial_frame + self._partial_message + self._large_message

    @override
    def receive_data(self, data: bytes | bytearray) -> None:
        self._partial_frame += len(data)
        super().receive_data(data)

    @override
    def events_received(self) -> list[Any]:
        """Return the events that were parsed since the last call, and count their bytes."""
        events = super().events_received()
        for event in events:
            self._partial_frame = 0
            if isinstance(event, Frame) and event.opcode in _DATA_OPCODES:
                self._partial_message += len(event.data) + _FRAGMENT_BYTES
                if event.fin:
                    if self._partial_message > SMALL_BODY_BYTES:
                        self._large_message = self._partial_message
                    self._partial_message = 0
        return events

    @override
    def reject(self, status: int, text: str) -> Response:
        """Return the response to a failed handshake, with the common error body."""
        response = super().reject(status, text)
        code = "not_found" if status == 404 else "invalid_handshake"
        failure = Failure(status, f"The WebSocket handshake failed: {text.strip()}", code=code)
        response.body = bytes(failure.response().body)
        response.headers["X-Request-Id"] = new_request_id()
        for name, value in (("Content-Length", str(len(response.body))), ("Content-Type", "application/json")):
            del response.headers[name]
            response.headers[name] = value
        return response


def websocket_protocol_class(open_connections: ConnectionTable, budget: BodyBudget) -> type[WebSocketConnection]:
    """Return the protocol class for uvicorn's ``ws`` option."""
    return type("WebSocketConnection", (WebSocketConnection,), {"open_connections": open_connections, "budget": budget})

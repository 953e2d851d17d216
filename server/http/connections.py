"""HTTP connections: a timeout for incomplete requests, and the common error response for invalid HTTP."""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any, ClassVar, cast

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from server.errors import ApiError, Failure, failure_of
from server.http.closing import LingeringClose, reset
from server.http.connection_table import ConnectionTable
from server.http.h11_connection import H11Connection
from server.telemetry.request_log import new_request_id

TRAILERS = "http.response.trailers"
"""Name of the ASGI extension for trailers, the headers that follow a body, and type of its message."""

_MAX_HEAD_BYTES = 16 * 1024
_RECEIVE_BYTES = 64 * 1024
"""What asyncio reads from a socket at a time, 256 KiB by default: parsing it must not hold up the event loop."""
_WRITE_BUFFER_BYTES = 64 * 1024
_LINGER_SECONDS = 1.0
_MOST_LINGERING = 32
"""Maximum number of refused connections that wait for their clients to close; others are closed at once."""

_ARRIVING = (h11.IDLE, h11.SEND_BODY)
"""States of a client whose request is incomplete."""


class HttpConnection(H11Protocol):
    """uvicorn's protocol with two limits: the time for a request to arrive, and the number of open connections.

    It relies on these parts of uvicorn, which tests/server/test_uvicorn_hooks.py checks: the attributes ``conn``,
    ``app``, ``cycle`` and ``transport``; that the scope of a cycle is the object the application is called with; that
    ``on_response_complete`` is called after each response, and ``send_400_response`` for a protocol error.

    Attributes:
        patience: seconds for a request to arrive. They start when the connection opens, for a later request at its
            first byte, and end at the request's last byte.
        table: the open connections.
    """

    conn: H11Connection
    patience = 60.0
    table: ConnectionTable
    _lingering: ClassVar[set[asyncio.Transport]] = set()
    _overdue: asyncio.TimerHandle | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = H11Connection(_MAX_HEAD_BYTES)
        self._application = self.app
        self.app = cast(Any, self._run_application)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it with 503 when the connection limit is reached."""
        super().connection_made(transport)
        transport.max_size = _RECEIVE_BYTES  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES, low=0)
        if self.table.add(transport, self.client[0] if self.client else ""):
            self._expect_request()
            return
        message = "The server has as many open connections as it may (limits.max_connections); try again later."
        self._refuse(ApiError(message, status=503, code="server_busy"), linger=True)

    def data_received(self, data: bytes) -> None:
        """Parse more of a request. The timeout ends when a WebSocket begins: live sessions have their own limits."""
        self.table.set_busy(self.transport)
        super().data_received(data)
        upgraded = self.transport.get_protocol() is not self
        self._note_idle()
        if upgraded or self.transport.is_closing() or self.conn.their_state not in _ARRIVING:
            self._stop_expecting()
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout and uncount the connection."""
        self._stop_expecting()
        self.table.remove(self.transport)
        self._lingering.discard(self.transport)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Mark the connection as idle, unless a pipelined request begins at once."""
        super().on_response_complete()
        self._note_idle()

    def resume_writing(self) -> None:
        """The client has taken everything that was written."""
        super().resume_writing()
        self._note_idle()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP, if no response has begun, and close the connection."""
        error = sys.exception()
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        reason = str(error).partition(":")[0]  # the rest quotes the client's bytes
        status = hint if hint < 500 else 400  # h11's 501 would report a server error
        self._refuse(ApiError(f"This is not HTTP: {reason}.", status=status, code="invalid_http"))

    def _should_upgrade(self) -> bool:
        """Upgrade GET requests only (RFC 6455, 4.1); any other request is a plain HTTP request."""
        return self.scope["method"] == "GET" and self.scope["http_version"] == "1.1" and super()._should_upgrade()

    async def _run_application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Offers trailers to clients that accept them, and makes incomplete responses detectable."""
        if _accepts_trailers(scope):
            send = self._send_with_trailers(scope, send)
        try:
            await self._application(cast(Any, scope), cast(Any, receive), cast(Any, send))
        finally:
            if self.cycle.scope is scope:
                self._reset_if_cut()

    def _send_with_trailers(self, scope: Scope, send: Send) -> Send:
        """Return ``send`` with support for the ASGI trailers extension, which uvicorn lacks."""
        scope["extensions"] = {**scope.get("extensions", {}), TRAILERS: {}}
        announced = False
        last: Message = {}

        async def send_with_trailers(message: Message) -> None:
            nonlocal announced, last
            if message["type"] == "http.response.start":
                announced = message.get("trailers", False)
            elif message["type"] == TRAILERS:
                self.conn.trailers = list(message["headers"])
                message = last
            elif announced and not message.get("more_body", False):
                last = message
                return
            await send(message)

        return send_with_trailers

    def _reset_if_cut(self) -> None:
        """Reset the connection if a plain close would make an incomplete response look complete.

        With Content-Length or chunked encoding the client detects an incomplete response without a reset. A reset
        would only discard audio that the client has not read yet.
        """
        cut = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if cut and self.conn.ends_with_connection:
            reset(self.transport)

    def _note_idle(self) -> None:
        """Mark the connection as idle when no request is in progress or has begun to arrive, and all is sent."""
        answered = self.cycle is None or self.cycle.response_complete
        answered = answered and not self.transport.get_write_buffer_size()
        if answered and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.table.set_idle(self.transport)

    def _expect_request(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(self.patience, self._give_up)

    def _stop_expecting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _give_up(self) -> None:
        """Refuse or close a connection whose request is overdue.

        While the application handles a request, ``BodyLimit`` enforces the timeout of its body instead.
        """
        self._overdue = None
        if self.transport.is_closing():
            return
        begun = self.conn.trailing_data[0] != b""
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_request()
        elif begun and self.conn.their_state is h11.IDLE:
            self._refuse(ApiError(too_slow(self.patience), status=408, code="request_timeout"))
        else:
            self.transport.close()

    def _refuse(self, refusal: ApiError, *, linger: bool = False) -> None:
        self._reset_if_cut()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(self._answer(failure_of(refusal)))
        if linger and len(self._lingering) < _MOST_LINGERING:
            self._lingering.add(self.transport)
            LingeringClose(self.transport, self, _LINGER_SECONDS)
        else:
            self.transport.close()

    def _answer(self, failure: Failure) -> bytes:
        response = failure.response()
        response.headers["Connection"] = "close"
        response.headers["X-Request-Id"] = new_request_id()
        reason = HTTPStatus(failure.status).phrase.encode()
        begin = h11.Response(status_code=failure.status, headers=response.raw_headers, reason=reason)
        events: list[h11.Event] = [begin, h11.Data(data=cast(bytes, response.body)), h11.EndOfMessage()]
        if self.scope is not None and self.scope["method"] == "HEAD" and self.conn.our_state is h11.SEND_RESPONSE:
            del events[1]  # a response to HEAD has no body
        return b"".join(self.conn.send(event) or b"" for event in events)


def too_slow(seconds: float) -> str:
    """Return the error message for a request that took longer than ``seconds`` to arrive."""
    return f"The request did not arrive within {seconds:g} s."


def connections(seconds: float, table: ConnectionTable) -> type[HttpConnection]:
    """Return the protocol class for uvicorn, with ``seconds`` as its request timeout and with ``table``."""
    return type("HttpConnection", (HttpConnection,), {"patience": seconds, "table": table, "_lingering": set()})


def _accepts_trailers(scope: Scope) -> bool:
    """Return whether the client accepts trailers (``TE: trailers``). Only a chunked response can have them."""
    if scope["http_version"] != "1.1":
        return False
    accepted = [value for name, value in scope["headers"] if name == b"te"]
    return any(each.strip().lower() == b"trailers" for value in accepted for each in value.split(b","))

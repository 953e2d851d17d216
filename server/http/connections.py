"""HTTP connections: a timeout for incomplete requests, and the common error response for invalid HTTP."""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any, ClassVar, cast

import h11
from typing_extensions import override

from server.errors import ApiError, Failure, failure_of
from server.http.closing import LingeringClose, reset
from server.http.connection_table import ConnectionTable
from server.http.h11_connection import H11Connection
from server.http.uvicorn_hooks import H11Protocol
from server.telemetry.request_log import new_request_id

_MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request line with its header: a URL of GET speech has its text."""
_RECEIVE_BYTES = 64 * 1024
"""What asyncio reads from a socket at a time, 256 KiB by default: parsing it must not hold up the event loop."""
_WRITE_BUFFER_BYTES = 64 * 1024
_LINGER_SECONDS = 1.0
_MAX_LINGERING = 32
"""Maximum number of refused connections that wait for their clients to close; others are closed at once."""

_REQUEST_INCOMPLETE = (h11.IDLE, h11.SEND_BODY)
"""States of a client whose request has not arrived completely."""
_RESPONSE_DUE = (h11.SEND_RESPONSE, h11.SEND_BODY)
"""States of a server that has not sent the complete response to a request."""


class HttpConnection(H11Protocol):
    """uvicorn's protocol with two limits: the time for a request to arrive, and the number of open connections.

    ``uvicorn_hooks`` lists what it uses of uvicorn. Applications find it as ``scope["state"]["connection"]``.

    Attributes:
        request_timeout: seconds for a request to arrive, to its last byte. The first request's time starts when the
            connection opens; a later one's at its first byte, or when the application takes over. Then ``BodyLimit``
            allows the same time for the body.
        open_connections: the open connections.
    """

    conn: H11Connection
    request_timeout = 60.0
    open_connections: ConnectionTable
    _lingering: ClassVar[set[asyncio.Transport]] = set()
    _request_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = H11Connection(_MAX_HEAD_BYTES)
        self.app_state = {**self.app_state, "connection": self}

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it with 503 when the connection limit is reached."""
        super().connection_made(transport)
        transport.max_size = _RECEIVE_BYTES  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES, low=0)
        if self.open_connections.add(transport, self.client[0] if self.client else ""):
            self._start_request_timer()
            return
        message = (
            f"The server has no free connection: at most {self.open_connections.max_connections} are open at once "
            "(limits.max_connections), and those of one address a share of that (limits.connection_share). "
            "Try again later."
        )
        self._refuse(ApiError(message, status=503, code="server_busy"), linger=True)

    @override
    def data_received(self, data: bytes) -> None:
        """Parse more of a request. The timeout ends when a WebSocket begins: live sessions have their own limits."""
        self.open_connections.set_busy(self.transport)
        super().data_received(data)
        upgraded = self.transport.get_protocol() is not self
        self.update_idle()
        if upgraded or self.transport.is_closing() or self.conn.their_state not in _REQUEST_INCOMPLETE:
            self._cancel_request_timer()
        else:
            self._start_request_timer()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_request_timer()
        self.open_connections.remove(self.transport)
        self._lingering.discard(self.transport)
        super().connection_lost(exc)
        # Break the reference cycles through "connection": a closed connection is freed without a garbage collection.
        self.app_state, self.cycle, self.scope = {}, None, None  # type: ignore[assignment]

    @override
    def resume_writing(self) -> None:
        """Mark the connection as idle if it waited only for the client to read: the write buffer is empty."""
        super().resume_writing()
        self.update_idle()

    @override
    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP, if no response has begun, and close the connection."""
        error = sys.exception()
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        reason = str(error).partition(":")[0]  # the rest quotes the client's bytes
        status = hint if hint < 500 else 400  # h11's 501 would report a server error
        self._refuse(ApiError(f"The request is not valid HTTP: {reason}.", status=status, code="invalid_http"))

    def reset_if_incomplete(self) -> None:
        """Reset the connection if a plain close would make an incomplete response look complete.

        With Content-Length or chunked encoding the client detects an incomplete response without a reset. A reset
        would only discard audio that the client has not read yet.
        """
        if self.conn.our_state is h11.SEND_BODY and self.conn.ends_with_connection:
            reset(self.transport)

    def update_idle(self) -> None:
        """Mark the connection as idle when no request is in progress or has begun to arrive, and all is sent."""
        sent = not self.transport.get_write_buffer_size()
        if sent and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.open_connections.set_idle(self.transport)

    def _start_request_timer(self) -> None:
        if self._request_timer is None:
            loop = asyncio.get_running_loop()
            self._request_timer = loop.call_later(self.request_timeout, self._on_request_timeout)

    def _cancel_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _on_request_timeout(self) -> None:
        """Refuse or close a connection whose request is overdue.

        While the application handles a request, ``BodyLimit`` enforces the timeout of its body instead.
        """
        self._request_timer = None
        if self.transport.is_closing():
            return
        request_begun = self.conn.trailing_data[0] != b""
        if self.conn.our_state in _RESPONSE_DUE:
            self._start_request_timer()
        elif request_begun and self.conn.their_state is h11.IDLE:
            self._refuse(request_timeout_error(self.request_timeout))
        else:
            self.transport.close()

    def _refuse(self, error: ApiError, *, linger: bool = False) -> None:
        """Send ``error`` if no response has begun, end the request in progress, and close the connection."""
        self.reset_if_incomplete()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(self._serialized(failure_of(error)))
        if linger and len(self._lingering) < _MAX_LINGERING:
            self._lingering.add(self.transport)
            LingeringClose(self.transport, self, _LINGER_SECONDS)
        else:
            self.transport.close()

    def _serialized(self, failure: Failure) -> bytes:
        """Return the bytes of an error response that ends the connection."""
        response = failure.response()
        response.headers["Connection"] = "close"
        response.headers["X-Request-Id"] = new_request_id()
        reason = HTTPStatus(failure.status).phrase.encode()
        begin = h11.Response(status_code=failure.status, headers=response.raw_headers, reason=reason)
        events: list[h11.Event] = [begin, h11.Data(data=cast(bytes, response.body)), h11.EndOfMessage()]
        if self.conn.head_request and self.conn.our_state is h11.SEND_RESPONSE:
            del events[1]  # a response to HEAD has no body
        return b"".join(self.conn.send(event) or b"" for event in events)


def request_timeout_error(seconds: float) -> ApiError:
    """Return the error for a request that took longer than ``seconds`` to arrive."""
    message = f"The request did not arrive within {seconds:g} s (limits.request_seconds)."
    return ApiError(message, status=408, code="request_timeout")


def http_protocol_class(request_timeout: float, open_connections: ConnectionTable) -> type[HttpConnection]:
    """Return the protocol class for uvicorn's ``http`` option. ``request_timeout`` is in seconds."""
    attributes = {"request_timeout": request_timeout, "open_connections": open_connections, "_lingering": set()}
    return type("HttpConnection", (HttpConnection,), attributes)

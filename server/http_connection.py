"""HTTP connections: a request that never ends is given up, and one that is no HTTP gets the one error shape."""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from server.errors import ApiError, Failure, failure_of
from server.request_log import new_request_id

_ARRIVING = (h11.IDLE, h11.SEND_BODY)
"""States of a client whose request is not complete."""


class HttpConnection(H11Protocol):
    """uvicorn's, with a bound on how long a request may take to arrive. uvicorn itself waits for ever.

    patience: seconds from a connection's first sign of life, or a further request's first byte, to its last one.
    """

    patience = 60.0
    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there, and has something to ask."""
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """More of a request. Of a WebSocket that begins here the session's own bounds hold."""
        super().data_received(data)
        upgraded = self.transport.get_protocol() is not self
        if upgraded or self.transport.is_closing() or self.conn.their_state not in _ARRIVING:
            self._stop_expecting()
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_expecting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, where the answer has not begun, and close."""
        error = sys.exception()
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        reason = str(error).partition(":")[0]  # what follows are the client's bytes
        status = hint if hint < 500 else 400  # h11's 501 would be the server's fault
        self._refuse(ApiError(f"This is not HTTP: {reason}.", status=status, code="invalid_http"))

    def _should_upgrade(self) -> bool:
        """WebSockets begin with GET (RFC 6455, 4.1): anything else is answered as a plain request."""
        return self.scope["method"] == "GET" and self.scope["http_version"] == "1.1" and super()._should_upgrade()

    def _expect_request(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(self.patience, self._give_up)

    def _stop_expecting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _give_up(self) -> None:
        """A body that the application still reads is its own to give up: ``BodyLimit``."""
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

    def _refuse(self, refusal: ApiError) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(self._answer(failure_of(refusal)))
        self.transport.close()

    def _answer(self, failure: Failure) -> bytes:
        response = failure.response()
        response.headers["Connection"] = "close"
        response.headers["X-Request-Id"] = new_request_id()
        reason = HTTPStatus(failure.status).phrase.encode()
        begin = h11.Response(status_code=failure.status, headers=response.raw_headers, reason=reason)
        events = (begin, h11.Data(data=cast(bytes, response.body)), h11.EndOfMessage())
        return b"".join(self.conn.send(event) or b"" for event in events)


def too_slow(seconds: float) -> str:
    """What a client is told whose request took longer to arrive."""
    return f"The request did not arrive within {seconds:g} s."


def connections(seconds: float) -> type[HttpConnection]:
    """The protocol for uvicorn, with that patience."""
    return type("HttpConnection", (HttpConnection,), {"patience": seconds})

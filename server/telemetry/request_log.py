"""ASGI middleware that assigns request ids, writes one log line per request, and answers uncaught errors."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import failure_of
from server.http.clients import client_of
from server.telemetry.observers import RequestObservers
from server.telemetry.record import WEBSOCKET, RequestRecord

log = logging.getLogger("sonant.requests")

_HEADER = "X-Request-Id"
_HEADER_BYTES = _HEADER.lower().encode()
_VALID_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
MAX_TRACE = 128
_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_SWITCHED = 101
_IDS_PER_READ = 256


class RequestLog:
    """Creates the record of each request, adds its id to the response (``X-Request-Id``) and completes it at the end.

    Answers exceptions that nothing else handled. For WebSockets it does so only until the connection is accepted;
    after that the live session reports its own errors.
    """

    def __init__(self, app: ASGIApp, observers: RequestObservers) -> None:
        self._app = app
        self._observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        trace = headers.get("traceparent", "")[:MAX_TRACE]
        method = scope.get("method", WEBSOCKET)
        record = RequestRecord(
            valid_request_id(headers.get(_HEADER, "")), method, scope["path"], trace, client_of(scope)
        )
        scope.setdefault("state", {})["record"] = record
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] in _STARTS:
                started = True
                record.status = record.status or message.get("status", _SWITCHED)
                message["headers"] = [*message.get("headers", ()), (_HEADER_BYTES, record.id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except (Exception, asyncio.CancelledError) as error:
            stopped = isinstance(error, asyncio.CancelledError)
            if not stopped:
                log.exception("id=%s unexpected error", record.id)
            record.failed(error)
            if not started:
                await failure_of(error).response()(scope, receive, send_with_id)
            if stopped:
                raise
        finally:
            self._observers.complete(record)


def valid_request_id(given: str) -> str:
    """Return the id that a client gave its request, or a random one if that is not valid."""
    return given if _VALID_ID.fullmatch(given) else new_request_id()


def new_request_id() -> str:
    """Return a random id for a request without a valid ``X-Request-Id`` header."""
    return f"req_{next(_ids)}"


def _generate_ids() -> Iterator[str]:
    """Yield ids of 32 random hexadecimal digits.

    Random bytes are read for many ids at once, because the system call costs more than making an id.
    """
    while True:
        digits = secrets.token_hex(16 * _IDS_PER_READ)
        for start in range(0, len(digits), 32):
            yield digits[start : start + 32]


_ids = _generate_ids()

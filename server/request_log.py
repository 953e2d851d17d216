"""One id and one line in the log for every request."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import failure_of
from server.journal import Journal
from server.request_record import WEBSOCKET, RequestRecord

log = logging.getLogger("sonant.requests")

_HEADER = "X-Request-Id"
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_LONGEST_TRACE = 128
_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_SWITCHED = 101


class RequestLog:
    """Gives each request its id, in the reply too; enters it when it ends; answers what nothing caught.

    So with WebSockets until they are accepted. From then on they answer for themselves.
    """

    def __init__(self, app: ASGIApp, journal: Journal) -> None:
        self._app = app
        self._journal = journal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        trace = headers.get("traceparent", "")[:_LONGEST_TRACE]
        record = RequestRecord(_request_id(headers), scope.get("method", WEBSOCKET), scope["path"], trace)
        scope.setdefault("state", {})["record"] = record
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] in _STARTS:
                started = True
                record.status = record.status or message.get("status", _SWITCHED)
                MutableHeaders(scope=message)[_HEADER] = record.id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except (Exception, asyncio.CancelledError) as error:
            stopped = isinstance(error, asyncio.CancelledError)
            if not stopped:
                log.exception("id=%s an unexpected failure", record.id)
            record.failed(error)
            if not started:
                await failure_of(error).response()(scope, receive, send_with_id)
            if stopped:
                raise
        finally:
            self._journal.ended(record)


def _request_id(headers: Headers) -> str:
    given = headers.get(_HEADER, "")
    return given if _SANE_ID.fullmatch(given) else new_request_id()


def new_request_id() -> str:
    """For a request that brought none."""
    return f"req_{uuid.uuid4().hex}"

"""One id and one line in the log for every request."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Iterable
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.request import FinishReason
from server.errors import failure_of
from server.request_record import Fact, RequestRecord

log = logging.getLogger("sonant.requests")

_HEADER = "X-Request-Id"
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_QUIET_PATHS = frozenset({"/health", "/ready", "/metrics"})
_LONGEST_TRACE = 128
_OF_CLIENTS = frozenset({"voice", "param"})


class Watcher(Protocol):
    """Wants to know of every speech request that is over."""

    def ended(self, record: RequestRecord) -> None:
        """``record`` is complete."""


class RequestLog:
    """Gives each request its id, in the reply too; logs it when it ends; answers what nothing caught."""

    def __init__(self, app: ASGIApp, watchers: Iterable[Watcher] = ()) -> None:
        self._app = app
        self._watchers = tuple(watchers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "websocket":
            await self._log_session(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        trace = headers.get("traceparent", "")[:_LONGEST_TRACE]
        record = RequestRecord(_request_id(headers), scope["method"], scope["path"], trace)
        scope.setdefault("state", {})["record"] = record
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                record.status = record.status or message["status"]
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
            self._end(record)

    async def _log_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket answers for itself."""
        record = RequestRecord(_request_id(Headers(scope=scope)), "WS", scope["path"])
        scope.setdefault("state", {})["record"] = record
        try:
            await self._app(scope, receive, send)
        finally:
            self._end(record)

    def _end(self, record: RequestRecord) -> None:
        record.ended = time.monotonic()
        facts = record.facts()
        fields = {"method": record.method, "path": record.path, **facts}
        log.log(_level(record), "%s %r %s", record.method, record.path, _line(facts), extra={"fields": fields})
        if record.is_speech:
            for watcher in self._watchers:
                watcher.ended(record)


def _line(facts: dict[str, Fact]) -> str:
    return " ".join(f"{name}={_word(name, fact)}" for name, fact in facts.items())


def _word(name: str, fact: Fact) -> str:
    if isinstance(fact, float):
        return f"{fact:.3f}"
    return repr(fact) if name in _OF_CLIENTS else str(fact)


def _level(record: RequestRecord) -> int:
    if record.completion is not None and record.completion.finish_reason is FinishReason.LENGTH:
        return logging.WARNING
    return logging.DEBUG if record.path in _QUIET_PATHS else logging.INFO


def _request_id(headers: Headers) -> str:
    given = headers.get(_HEADER, "")
    return given if _SANE_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"

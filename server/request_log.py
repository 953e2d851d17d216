"""One id, one record and one line in the log for every request."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.request import SAMPLE_RATE, Completion, FinishReason
from server.errors import CLIENT_LEFT, failure_of

log = logging.getLogger("sonant.requests")

_HEADER = "X-Request-Id"
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_QUIET_PATHS = frozenset({"/health", "/ready"})


@dataclass(slots=True)
class RequestRecord:
    """What the log tells of one request; the route fills in what it learns."""

    id: str
    started: float = field(default_factory=time.monotonic)
    status: int | None = None
    first_audio: float | None = None
    samples: int = 0
    completion: Completion | None = None
    failure: str | None = None
    param: str | None = None

    def sounded(self) -> None:
        """The first audio that can be heard exists now."""
        self.first_audio = time.monotonic() - self.started

    def failed(self, error: BaseException) -> None:
        """The request ended in ``error``, before or after its status line."""
        failure = failure_of(error)
        self.failure = failure.code or failure.message
        self.param = failure.param
        if failure.status == CLIENT_LEFT:
            self.status = CLIENT_LEFT

    def line(self) -> str:
        """The record as ``name=value`` words; what did not happen is left out."""
        words = {
            "id": self.id,
            "status": self.status,
            "seconds": f"{time.monotonic() - self.started:.3f}",
            "first_audio": None if self.first_audio is None else f"{self.first_audio:.3f}",
            "audio": f"{self.samples / SAMPLE_RATE:.2f}" if self.samples else None,
            "finish": None if self.completion is None else self.completion.finish_reason.value,
            "error": self.failure,
            "param": self.param and repr(self.param),
        }
        return " ".join(f"{name}={value}" for name, value in words.items() if value is not None)


class RequestLog:
    """Gives each request its id, in the reply too; logs it when it ends; answers what nothing caught."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = RequestRecord(_request_id(Headers(scope=scope)))
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
            log.log(_level(scope, record), "%s %r %s", scope["method"], scope["path"], record.line())


def _level(scope: Scope, record: RequestRecord) -> int:
    if record.completion is not None and record.completion.finish_reason is FinishReason.LENGTH:
        return logging.WARNING
    return logging.DEBUG if scope["path"] in _QUIET_PATHS else logging.INFO


def _request_id(headers: Headers) -> str:
    given = headers.get(_HEADER, "")
    return given if _SANE_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"

"""``WS /v1/audio/speech/stream``: live text in, audio out."""

from __future__ import annotations

import contextlib
import logging

from fastapi import APIRouter, WebSocket

from engine.errors import EngineError
from server.errors import ApiError, ClientLeft, failure_of
from server.live.session import Session
from server.request_record import RequestRecord
from server.services import Services

router = APIRouter()
log = logging.getLogger("sonant.requests")

_SWITCHED = 101
_POLICY, _FAILED = 1008, 1011
"""Close codes (RFC 6455, 7.4.1): what the client sent cannot be done; the server failed."""


@router.websocket("/v1/audio/speech/stream")
async def speak_live(socket: WebSocket) -> None:
    """Messages of ``server.live.messages`` in; ``audio.start``, audio, ``audio.done`` and ``error`` out."""
    services: Services = socket.app.state.services
    record: RequestRecord = socket.state.record
    await socket.accept()
    record.status = _SWITCHED
    session = Session(socket, services, record)
    try:
        await session.run()
    except ClientLeft as error:
        record.failed(error)
    except Exception as error:
        if not isinstance(error, ApiError | EngineError):
            log.exception("id=%s an unexpected failure", record.id)
        record.failed(error)
        failure = failure_of(error)
        record.status = failure.status
        with contextlib.suppress(ClientLeft):
            await session.learn({"type": "error", **failure.body()})
            await socket.close(_FAILED if failure.status >= 500 else _POLICY)

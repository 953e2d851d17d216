"""``WS /v1/audio/speech/stream``: speech for text that the client sends piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from fastapi import APIRouter, WebSocket
from starlette.exceptions import HTTPException

from engine.errors import EngineError
from server.errors import ApiError, ClientDisconnected, Failure, failure_of
from server.http.clients import client_of
from server.live.session import Session
from server.services import CurrentServices
from server.telemetry.record import RequestRecord

router = APIRouter()
log = logging.getLogger("sonant.requests")

_POLICY, _FAILED, _RESTART = 1008, 1011, 1012
"""WebSocket close codes (RFC 6455, 7.4.1, and the IANA registry): invalid request, server error, server shutdown."""
_STOPPING = frozenset({"draining", "stopped"})


@router.websocket("/v1/audio/speech/stream")
async def live_speech(socket: WebSocket) -> None:
    """Run a live session.

    The client sends the messages of ``server.live.messages``. The server sends ``audio.start``, audio, ``audio.done``
    and ``error``.
    """
    current: CurrentServices = socket.app.state.current_services
    services = current.services
    record: RequestRecord = socket.state.record
    services.admission.check_open()
    client = client_of(socket.scope)
    with services.sessions.session(client):
        services.outcomes.add_running(record)
        session = Session(socket, current, record, client)
        try:
            await session.accept()
            await session.run()
        except ClientDisconnected as error:
            record.failed(error)
        except (Exception, asyncio.CancelledError) as error:
            if not isinstance(error, ApiError | EngineError | asyncio.CancelledError):
                log.exception("id=%s unexpected error", record.id)
            record.set_status(error)
            await _close_with_error(session, failure_of(error))
            if isinstance(error, asyncio.CancelledError):
                raise


@router.websocket("/{path:path}")
async def unknown_path(socket: WebSocket, path: str) -> None:
    """Refuse the handshake on any other path with 404. Without this route it would fail with an empty 403."""
    raise HTTPException(404)


async def _close_with_error(session: Session, failure: Failure) -> None:
    code = _RESTART if failure.code in _STOPPING else _FAILED if failure.status >= 500 else _POLICY
    with contextlib.suppress(ClientDisconnected):
        await session.send_event({"type": "error", **failure.body()})
        await session.close(code)

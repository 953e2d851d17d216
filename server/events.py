"""Speech as server-sent events."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from sse_starlette import JSONServerSentEvent, ServerSentEvent

from engine.errors import EngineError
from server.audio.rendering import Rendering
from server.errors import failure_of
from server.request_record import RequestRecord
from server.utterance import Utterance

log = logging.getLogger("sonant.requests")

MEDIA_TYPE = "text/event-stream"

_PING = ServerSentEvent(comment="ping", sep="\n").encode()
_PING_SECONDS = 2


async def speech_events(utterance: Utterance, rendering: Rendering, record: RequestRecord) -> AsyncIterator[bytes]:
    """The pieces of ``rendering``'s file as deltas, then the usage; a failure midway is an event too."""
    try:
        async for piece in utterance.encoded(rendering):
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
        yield _event({"type": "speech.audio.done", **utterance.ending})
    except Exception as error:
        if not isinstance(error, EngineError):
            log.exception("id=%s an unexpected failure", record.id)
        record.failed(error)
        yield error_event(error)


async def with_pings(events: AsyncIterator[bytes], seconds: float = _PING_SECONDS) -> AsyncGenerator[bytes, None]:
    """``events``, and a comment whenever the next one takes longer than ``seconds``: proxies cut silence off.

    Closed early, it leaves nothing of them at work.
    """
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            await asyncio.wait({coming}, timeout=seconds)
            if not coming.done():
                yield _PING
                continue
            event = coming.result()
            if event is None:
                return
            yield event
            coming = asyncio.ensure_future(anext(events, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def error_event(error: Exception) -> bytes:
    """Return the event that tells the client of ``error``; the last one of its stream."""
    return _event({"type": "error", **failure_of(error).body()})


def _event(data: dict[str, Any]) -> bytes:
    return JSONServerSentEvent(data, event=data["type"], sep="\n").encode()

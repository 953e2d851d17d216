"""Server-sent events of a streamed speech response."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from sse_starlette import JSONServerSentEvent, ServerSentEvent

from engine.errors import EngineError
from server.errors import ApiError, failure_of
from server.synthesis.utterance import Utterance, WordFields
from server.telemetry.record import RequestRecord

log = logging.getLogger("sonant.requests")

CONTENT_TYPE = "text/event-stream; charset=utf-8"

_PING = ServerSentEvent(comment="ping", sep="\n").encode()
_PING_SECONDS = 2


class BrokenStream(Exception):
    """The stream ended with an error event. The connection must break, for clients that ignore such events."""


async def speech_events(utterance: Utterance, record: RequestRecord) -> AsyncIterator[bytes]:
    """Yield the audio file as delta events, then a done event with the usage.

    If the request wants the times of the words, words events follow their audio. On a failure, yields an error event
    and raises BrokenStream.
    """
    try:
        async for piece in utterance.encoded():
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
            for words in utterance.timed_words():
                yield _event(words_event(words))
        async for words in utterance.remaining_words():
            yield _event(words_event(words))
        yield _event({"type": "speech.audio.done", **utterance.completion_fields()})
    except Exception as error:
        if not isinstance(error, ApiError | EngineError):
            log.exception("id=%s unexpected error", record.id)
        record.failed(error)
        yield error_event(error)
        raise BrokenStream from error


async def with_pings(events: AsyncIterator[bytes], seconds: float = _PING_SECONDS) -> AsyncGenerator[bytes, None]:
    """Yield ``events``, and an SSE comment whenever the next event takes longer than ``seconds``.

    The comments keep proxies from closing an idle connection. Closing this generator early cancels the pending event.
    """
    pending = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            await asyncio.wait({pending}, timeout=seconds)
            if not pending.done():
                yield _PING
                continue
            event = pending.result()
            if event is None:
                return
            yield event
            pending = asyncio.ensure_future(anext(events, None))
    finally:
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)


def words_event(words: WordFields) -> dict[str, Any]:
    """Return the event with the times of words, for SSE and live sessions."""
    return {"type": "speech.audio.words", "words": words}


def error_event(error: Exception) -> bytes:
    """Return the event that reports ``error`` to the client. It is the last event of its stream."""
    return _event({"type": "error", **failure_of(error).body()})


def _event(data: dict[str, Any]) -> bytes:
    return JSONServerSentEvent(data, event=data["type"], sep="\n").encode()

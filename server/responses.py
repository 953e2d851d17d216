"""The three ways speech leaves: raw bytes as they are made, events, or one whole body."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from sse_starlette import EventSourceResponse, JSONServerSentEvent, ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from engine.errors import EngineError
from engine.request import SAMPLE_RATE
from server.audio.encoders import Encoder
from server.errors import ClientLeft, failure_of
from server.presence import unless_client_leaves
from server.request_log import RequestRecord
from server.utterance import Utterance

log = logging.getLogger("sonant.requests")

_PING_SECONDS = 2
_HEADERS = {
    "X-Sample-Rate": str(SAMPLE_RATE),
    "X-Channels": "1",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}

# A server that is told to stop lets its utterances end; sse-starlette would cut the events off midway.
AppStatus.enable_automatic_graceful_drain = False


async def whole_audio(utterance: Utterance, kind: type[Encoder]) -> Response:
    """The utterance as one body with its length; nothing leaves before it is complete."""
    samples = np.concatenate([block async for block in utterance.samples()])

    def encode() -> bytes:
        encoder = kind(len(samples))
        return encoder.start() + encoder.encode(samples) + encoder.finish()

    return Response(await asyncio.to_thread(encode), media_type=kind.media_type, headers=_HEADERS)


class AudioStream(Response):
    """Raw bytes, each chunk as it is made. A failure midway breaks the connection off: no clean end."""

    def __init__(self, utterance: Utterance, kind: type[Encoder], record: RequestRecord, held: ExitStack) -> None:
        self.status_code = 200
        self.media_type = kind.media_type
        self.background = None
        self.init_headers(_HEADERS)
        self._pieces = utterance.encoded(kind(None))
        self._record = record
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Returning before the last body message is what makes the server close the connection."""
        with self._held:
            try:
                await unless_client_leaves(receive, self._send(send))
            except (ClientLeft, EngineError) as error:
                self._record.failed(error)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class SpeechEvents(EventSourceResponse):
    """Server-sent events: the same bytes as deltas, then the usage; a failure midway is an event too."""

    def __init__(self, utterance: Utterance, kind: type[Encoder], record: RequestRecord, held: ExitStack) -> None:
        super().__init__(
            _events(utterance, kind(None), record),
            headers=_HEADERS,
            ping=_PING_SECONDS,
            ping_message_factory=lambda: ServerSentEvent(comment="ping", sep="\n"),
            sep="\n",
            client_close_handler_callable=self._left,
        )
        self._utterance = utterance
        self._record = record
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        with self._held:
            await super().__call__(scope, receive, send)

    async def _left(self, _message: Message) -> None:
        if self._utterance.completion is None and self._record.failure is None:
            self._record.failed(ClientLeft())


async def _events(utterance: Utterance, encoder: Encoder, record: RequestRecord) -> AsyncIterator[ServerSentEvent]:
    try:
        async for piece in utterance.encoded(encoder):
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
        yield _event({"type": "speech.audio.done", "usage": _usage(utterance)})
    except Exception as error:
        if not isinstance(error, EngineError):
            log.exception("id=%s an unexpected failure", record.id)
        record.failed(error)
        yield _event({"type": "error", **failure_of(error).body()})


def _event(data: dict[str, Any]) -> ServerSentEvent:
    return JSONServerSentEvent(data, event=data["type"], sep="\n")


def _usage(utterance: Utterance) -> dict[str, int]:
    ended = utterance.completion
    read, made = (ended.input_tokens, ended.output_tokens) if ended else (0, 0)
    return {"input_tokens": read, "output_tokens": made, "total_tokens": read + made}

"""The ways speech leaves: as it is made, or as one whole body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing

import numpy as np
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from engine.errors import EngineError
from engine.request import SAMPLE_RATE
from server.audio.encoders import Encoder
from server.errors import ClientLeft
from server.presence import unless_client_leaves
from server.request_log import RequestRecord
from server.utterance import Utterance

_HEADERS = {
    "X-Sample-Rate": str(SAMPLE_RATE),
    "X-Channels": "1",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


async def whole_audio(utterance: Utterance, kind: type[Encoder]) -> Response:
    """The utterance as one body with its length; nothing leaves before it is complete."""
    samples = np.concatenate([block async for block in utterance.samples()])

    def encode() -> bytes:
        encoder = kind(len(samples))
        return encoder.start() + encoder.encode(samples) + encoder.finish()

    return Response(await asyncio.to_thread(encode), media_type=kind.media_type, headers=_HEADERS)


class StreamedSpeech(Response):
    """``pieces``, each sent as it is made. A failure midway breaks the connection off: no clean end.

    A client that takes nothing for ``patience`` seconds counts as one that left. ``held`` is closed at the end.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        record: RequestRecord,
        held: ExitStack,
        patience: float,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(_HEADERS)
        self._pieces = pieces
        self._record = record
        self._held = held
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Returning before the last body message is what makes the server close the connection."""
        with self._held:
            try:
                await unless_client_leaves(receive, self._send_all(send))
            except (ClientLeft, EngineError) as error:
                self._record.failed(error)

    async def _send_all(self, send: Send) -> None:
        await self._send(send, {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                await self._send(send, {"type": "http.response.body", "body": piece, "more_body": True})
        await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await send(message)
        except TimeoutError:
            raise ClientLeft from None

"""The ways speech leaves: as it is made, or as one whole body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from engine.errors import EngineError
from server.audio.rendering import Rendering
from server.errors import ClientLeft
from server.presence import unless_client_leaves
from server.request_record import RequestRecord
from server.utterance import Utterance


async def whole_audio(utterance: Utterance, rendering: Rendering) -> Response:
    """The utterance as one body with its length; nothing leaves before it is complete."""
    body = b"".join([piece async for piece in utterance.encoded(rendering)])
    return Response(body, media_type=rendering.media_type, headers=_headers(rendering))


def _headers(rendering: Rendering) -> dict[str, str]:
    return {
        "X-Sample-Rate": str(rendering.sample_rate),
        "X-Channels": "1",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }


class Streamed(Response):
    """``pieces``, each sent as it is made. A failure midway breaks the connection off: no clean end.

    A client that takes nothing for ``patience`` seconds counts as one that left. ``held`` is closed at the end.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: dict[str, str],
        record: RequestRecord,
        held: ExitStack,
        patience: float,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)
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
        try:
            async with asyncio.timeout(None) as stalled, aclosing(self._pieces) as pieces:
                begin = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                await self._send(send, begin, stalled)
                async for piece in pieces:
                    await self._send(send, {"type": "http.response.body", "body": piece, "more_body": True}, stalled)
                await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False}, stalled)
        except TimeoutError:
            if not stalled.expired():
                raise
            raise ClientLeft from None

    async def _send(self, send: Send, message: Message, stalled: asyncio.Timeout) -> None:
        clock = asyncio.get_running_loop().time
        begun = clock()
        stalled.reschedule(begun + self._patience)
        await send(message)
        stalled.reschedule(None)
        self._record.held_up(clock() - begun)


class StreamedSpeech(Streamed):
    """Speech as a stream of ``media_type``, unless given the rendering's."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        rendering: Rendering,
        record: RequestRecord,
        held: ExitStack,
        patience: float,
        media_type: str | None = None,
    ) -> None:
        super().__init__(pieces, media_type or rendering.media_type, _headers(rendering), record, held, patience)

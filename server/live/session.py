"""A live WebSocket session: a sequence of utterances, each of which the client can cancel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from server.api.json_body import LARGE
from server.api.models import check_model
from server.api.requests import SpeechBody
from server.errors import ApiError, ClientDisconnected
from server.live.messages import Cancel, Configure, Done, Message, Text, parse
from server.live.utterance import LiveUtterance
from server.services import Services
from server.telemetry.record import RequestRecord


class Session:
    """A live session on one WebSocket.

    It ends when the client disconnects, sends an invalid message or sends no text for too long, when an utterance
    fails, or when the session reaches its maximum duration.
    """

    def __init__(self, socket: WebSocket, services: Services, record: RequestRecord, client: str) -> None:
        self._socket, self._services, self._record, self._client = socket, services, record, client
        self._limits = services.settings.limits
        self._body: SpeechBody | None = None
        self._speaking: LiveUtterance | None = None
        self._spoken = 0
        self._ended_early = False
        """The last utterance ended before its text was complete: the rest of its text is ignored."""
        self._cancelled = False
        """An utterance was cancelled before its text was complete: its ``input.done`` may still arrive."""

    async def accept(self) -> None:
        """Accept the WebSocket. Raises ClientDisconnected."""
        with _unless_gone():
            await self._socket.accept()

    async def close(self, code: int) -> None:
        """Close the WebSocket with a close code (RFC 6455, 7.4). Raises ClientDisconnected."""
        with _unless_gone():
            await self._socket.close(code)

    async def run(self) -> None:
        """Handle messages until the session ends.

        Raises ApiError or EngineError for the error that ends it, and ClientDisconnected when the client disconnects
        during an utterance.
        """
        try:
            await self._run()
        except ClientDisconnected as left:
            if self._speaking is not None:
                await self._speaking.cancel(left)
                raise
        except BaseException as error:
            if self._speaking is not None:
                await self._speaking.cancel(error)
            raise

    async def _run(self) -> None:
        receiving: asyncio.Task[Message] | None = None
        try:
            async with asyncio.timeout(self._limits.live_seconds) as end:
                while True:
                    receiving = receiving or asyncio.create_task(self._receive())
                    if await self._next(receiving):
                        message, receiving = receiving.result(), None
                        await self._obey(message)
        except TimeoutError:
            if not end.expired():
                raise
            longest = f"A live session may last {self._limits.live_seconds:g} s."
            raise ApiError(longest, status=408, code="session_expired") from None
        finally:
            if receiving is not None:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

    async def _next(self, receiving: asyncio.Task[Message]) -> bool:
        """Wait for a message or for the end of the current utterance. Return whether a message arrived.

        Raises ApiError 408 when the session is idle for too long, or the error of the utterance.
        """
        speaking = self._speaking
        waits = {receiving} if speaking is None else {receiving, speaking.task}
        patience = None if speaking is not None and speaking.complete else self._limits.live_idle_seconds
        done, _ = await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            message = f"No text came for {self._limits.live_idle_seconds:g} s."
            raise ApiError(message, status=408, code="session_idle")
        if speaking is not None and speaking.task in done:
            speaking.task.result()
            self._speaking, self._ended_early = None, not speaking.complete
        return receiving in done

    async def _obey(self, message: Message) -> None:
        match message:
            case Configure(body):
                if self._speaking is not None:
                    raise ApiError("The voice cannot change while it speaks: cancel first.", param="type")
                check_model(body.model, self._services.settings)
                self._body = body
            case Text(piece):
                self._cancelled = False
                if not self._ended_early:
                    self._utterance().add(piece)
            case Done():
                self._finish()
            case Cancel():
                await self._silence()

    def _finish(self) -> None:
        if self._ended_early or (self._cancelled and self._speaking is None):
            self._ended_early = self._cancelled = False
            return
        self._utterance().finish()

    def _utterance(self) -> LiveUtterance:
        """Return the utterance that accepts text; create one when there is none. Raises ApiError."""
        if self._body is None:
            raise ApiError("The first message is session.config.", param="type")
        if self._speaking is None:
            self._speaking = LiveUtterance(self._body, self._services, self._record, self._spoken, self, self._client)
            self._spoken += 1
        if self._speaking.complete:
            raise ApiError("The utterance's text is complete; wait for audio.done, or cancel.", param="type")
        return self._speaking

    async def _silence(self) -> None:
        self._ended_early = False
        if self._speaking is None:
            return
        speaking, self._speaking = self._speaking, None
        self._cancelled = not speaking.complete
        await speaking.cancel()
        await self.learn({"type": "audio.done", "finish_reason": "cancelled", "usage": None})

    async def _receive(self) -> Message:
        incoming = await self._socket.receive()
        if incoming["type"] == "websocket.disconnect":
            raise ClientDisconnected
        text, raw = incoming.get("text"), incoming.get("bytes")
        body = text.encode("utf-8", "surrogatepass") if text is not None else raw or b""
        if len(body) > LARGE:
            return await asyncio.to_thread(parse, body, self._services.settings)
        return parse(body, self._services.settings)

    async def hear(self, audio: bytes) -> None:
        """Send a binary frame. Raises ClientDisconnected."""
        await self._send({"type": "websocket.send", "bytes": audio})

    async def learn(self, fields: dict[str, Any]) -> None:
        """Send a text frame with JSON. Raises ClientDisconnected."""
        await self._send({"type": "websocket.send", "text": json.dumps(fields)})

    async def _send(self, message: dict[str, Any]) -> None:
        with _unless_gone():
            async with asyncio.timeout(self._limits.stalled_seconds):
                await self._socket.send(message)


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Raise ClientDisconnected in place of the errors that ASGI servers raise for a disconnected or stalled client."""
    try:
        yield
    except (TimeoutError, WebSocketDisconnect, RuntimeError, OSError):
        raise ClientDisconnected from None

"""A live WebSocket session: a sequence of utterances, each of which the client can cancel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from server.errors import ApiError, ClientDisconnected
from server.live.messages import Cancel, Close, Configure, Done, Message, Text, parse_message
from server.live.utterance import LiveUtterance
from server.request_models.json_object import parse_body
from server.request_models.speech import SpeechBody
from server.services import CurrentServices
from server.telemetry.record import RequestRecord

_NORMAL = 1000
"""WebSocket close code (RFC 6455, 7.4.1) of a session that its client ended."""


class Session:
    """A live session on one WebSocket.

    It ends when the client disconnects or asks for it, sends an invalid message or sends no text for too long, when an
    utterance fails, or when the session reaches its maximum duration.
    """

    def __init__(self, socket: WebSocket, services: CurrentServices, record: RequestRecord, client: str) -> None:
        self._socket, self._current_services, self._record, self._client = socket, services, record, client
        self._limits = services.services.settings.limits
        self._body: SpeechBody | None = None
        self._current: LiveUtterance | None = None
        self._utterance_count = 0
        self._ended_early = False
        """The last utterance ended before its text was complete: the rest of its text is ignored."""
        self._cancelled = False
        """An utterance was cancelled before its text was complete: its ``input.done`` may still arrive."""
        self._announces_end = False
        self._closing = False

    async def accept(self) -> None:
        """Accept the WebSocket. Raises ClientDisconnected."""
        with _disconnect_errors():
            await self._socket.accept()

    async def close(self, code: int) -> None:
        """Close the WebSocket with a close code (RFC 6455, 7.4). Raises ClientDisconnected."""
        with _disconnect_errors():
            await self._socket.close(code)

    async def run(self) -> None:
        """Handle messages until the session ends.

        Raises ApiError or EngineError for the error that ends it, and ClientDisconnected when the client disconnects
        during an utterance.
        """
        try:
            await self._run()
        except ClientDisconnected as error:
            if self._current is not None:
                await self._current.cancel(error)
                raise
        except BaseException as error:
            if self._current is not None:
                await self._current.cancel(error)
            raise

    async def _run(self) -> None:
        receiving: asyncio.Task[Message] | None = None
        try:
            async with asyncio.timeout(self._limits.live_seconds) as end:
                while not (self._closing and self._current is None):
                    receiving = receiving or asyncio.create_task(self._receive())
                    if await self._wait(receiving):
                        message, receiving = receiving.result(), None
                        await self._handle(message)
            await self.close(_NORMAL)
        except TimeoutError:
            if not end.expired():
                raise
            seconds = self._limits.live_seconds
            text = f"a live session may last at most {seconds:g} s (limits.live_seconds); open a new one"
            raise ApiError(text, status=408, code="session_expired") from None
        finally:
            if receiving is not None:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

    async def _wait(self, receiving: asyncio.Task[Message]) -> bool:
        """Wait for a message or for the end of the current utterance. Return whether a message arrived.

        Raises ApiError 408 when the session is idle for too long, or the error of the utterance.
        """
        current = self._current
        awaited = {receiving} if current is None else {receiving, current.task}
        timeout = None if current is not None and current.complete else self._limits.live_idle_seconds
        done, _ = await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            message = f"no message arrived for {self._limits.live_idle_seconds:g} s (limits.live_idle_seconds)"
            raise ApiError(message, status=408, code="session_idle")
        if current is not None and current.task in done:
            current.task.result()
            self._current, self._ended_early = None, not current.complete
            if current.complete:
                await self._announce_end(current.number)
        return receiving in done

    async def _handle(self, message: Message) -> None:
        match message:
            case Configure(body, announces_end):
                if self._current is not None:
                    text = (
                        "session.config is not allowed during an utterance: wait for audio.done, or send cancel first"
                    )
                    raise ApiError(text, param="type")
                self._current_services.services.model(body.model)
                self._body, self._announces_end = body, announces_end
            case Text(piece):
                self._cancelled = False
                if not self._ended_early:
                    self._utterance().add(piece)
            case Done():
                if self._ended_early:
                    await self._announce_end(self._utterance_count - 1)
                self._finish()
            case Close():
                self._closing = True
                if self._current is not None and not self._current.complete:
                    self._finish()
            case Cancel():
                await self._cancel_current()

    def _finish(self) -> None:
        if self._ended_early or (self._cancelled and self._current is None):
            self._ended_early = self._cancelled = False
            return
        self._utterance().finish()

    def _utterance(self) -> LiveUtterance:
        """Return the utterance that accepts text; create one when there is none. Raises ApiError."""
        if self._body is None:
            raise ApiError("session.config must be the first message", param="type")
        if self._current is None:
            services = self._current_services.services
            model = services.model(self._body.model)
            self._current = LiveUtterance(
                self._body, model, services, self._record, self._utterance_count, self, self._client
            )
            self._utterance_count += 1
        if self._current.complete:
            message = "the text of this utterance is complete: wait for audio.done, or send cancel first"
            raise ApiError(message, param="type")
        return self._current

    async def _cancel_current(self) -> None:
        self._ended_early = False
        if self._current is None:
            return
        current, self._current = self._current, None
        self._cancelled = not current.complete
        await current.cancel()
        await self.send_event({"type": "audio.done", **current.index, "finish_reason": "cancelled", "usage": None})

    async def _announce_end(self, number: int) -> None:
        """Tell a client of vllm-omni that all audio of an utterance was sent."""
        if self._announces_end:
            await self.send_event({"type": "session.done", "utterance_index": number, "total_sentences": 1})

    async def _receive(self) -> Message:
        incoming = await self._socket.receive()
        if incoming["type"] == "websocket.disconnect":
            raise ClientDisconnected
        text, raw = incoming.get("text"), incoming.get("bytes")
        body = text.encode("utf-8", "surrogatepass") if text is not None else raw or b""
        return await parse_body(lambda raw: parse_message(raw, self._current_services.services.settings), body)

    async def send_audio(self, audio: bytes) -> None:
        """Send a binary frame. Raises ClientDisconnected."""
        await self._send({"type": "websocket.send", "bytes": audio})

    async def send_event(self, fields: dict[str, Any]) -> None:
        """Send a text frame with JSON. Raises ClientDisconnected."""
        await self._send({"type": "websocket.send", "text": json.dumps(fields)})

    async def _send(self, message: dict[str, Any]) -> None:
        with _disconnect_errors():
            async with asyncio.timeout(self._limits.stalled_seconds):
                await self._socket.send(message)


@contextmanager
def _disconnect_errors() -> Iterator[None]:
    """Raise ClientDisconnected in place of the errors that ASGI servers raise for a disconnected or stalled client."""
    try:
        yield
    except (TimeoutError, WebSocketDisconnect, RuntimeError, OSError):
        raise ClientDisconnected from None

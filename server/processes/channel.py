"""Messages between two processes of a server: JSON objects over a Unix socket, with file descriptors."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Protocol

Message = dict[str, Any]
_READ_BYTES = 64 * 1024
_MAX_DESCRIPTORS = 16
log = logging.getLogger("sonant")


class PeerLost(Exception):
    """The other process has ended, does not answer in time, or has failed to answer."""


class Handler(Protocol):
    """What a process does with the messages of another one."""

    def received(self, message: Message, descriptors: list[int]) -> None:
        """Handle a message. Takes ownership of the descriptors that came with it."""

    async def answer(self, message: Message) -> Any:
        """Return the answer to a question, as JSON data."""

    def disconnected(self) -> None:
        """Handle the end of the other process, or of the connection to it. Called once."""


class Channel:
    """One end of a connection between two processes. Use it in one event loop. Sending never waits.

    Args:
        connection: a Unix stream socket, which it takes ownership of.
        handler: handles what arrives.
    """

    def __init__(self, connection: socket.socket, handler: Handler) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection, self._handler = connection, handler
        self._received = bytearray()
        self._descriptors: deque[int] = deque()
        self._outbox: deque[tuple[bytes, Sequence[int]]] = deque()
        self._numbers = itertools.count()
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._answers: set[asyncio.Task[None]] = set()
        self._closed = False
        connection.setblocking(False)
        self._loop.add_reader(connection, self._read)

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message. Takes ownership of the descriptors. No-op once the other process has ended."""
        if self._closed:
            _close_all(descriptors)
            return
        data = json.dumps({**message, "descriptors": len(descriptors)}, separators=(",", ":")).encode() + b"\n"
        self._outbox.append((data, descriptors))
        if len(self._outbox) == 1:
            self._write()

    async def ask(self, message: Message, timeout: float | None) -> Any:
        """Return the answer of the other process. Raises PeerLost, after ``timeout`` seconds without an answer too."""
        if self._closed:
            raise PeerLost
        number = next(self._numbers)
        answer = self._questions[number] = self._loop.create_future()
        self.send({**message, "question": number})
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise PeerLost from None
        finally:
            self._questions.pop(number, None)

    def close(self) -> None:
        """Close the connection. Questions end with PeerLost. Idempotent; ``Handler.disconnected`` is not called."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._connection)
        self._loop.remove_writer(self._connection)
        self._connection.close()
        _close_all(self._descriptors)
        for _, descriptors in self._outbox:
            _close_all(descriptors)
        self._outbox.clear()
        for answer in self._questions.values():
            if not answer.done():
                answer.set_exception(PeerLost())
        for task in self._answers:
            task.cancel()

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._connection, _READ_BYTES, _MAX_DESCRIPTORS)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._descriptors += descriptors
        self._received += data
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        try:
            for line in lines:
                if not self._closed:
                    self._handle(json.loads(line))
        except Exception:
            log.exception("a message of another HTTP process could not be handled")
            data = b""
        if not data and not self._closed:
            self.close()
            self._handler.disconnected()

    def _handle(self, message: Message) -> None:
        descriptors = [self._descriptors.popleft() for _ in range(message.pop("descriptors"))]
        if (number := message.pop("answer", None)) is not None:
            if (answer := self._questions.get(number)) is None or answer.done():
                return
            if "value" in message:
                answer.set_result(message["value"])
            else:
                answer.set_exception(PeerLost())
        elif (number := message.pop("question", None)) is not None:
            task = self._loop.create_task(self._answer(number, self._handler.answer(message)))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        else:
            self._handler.received(message, descriptors)

    async def _answer(self, number: int, value: Awaitable[Any]) -> None:
        try:
            self.send({"answer": number, "value": await value})
        except Exception:
            log.exception("a question of another HTTP process could not be answered")
            self.send({"answer": number})

    def _write(self) -> None:
        while self._outbox:
            data, descriptors = self._outbox[0]
            try:
                sent = socket.send_fds(self._connection, [data], descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._connection, self._write)
                return
            except OSError:
                self._loop.remove_writer(self._connection)
                return  # ``_read`` will notice the end, and free what is queued
            _close_all(descriptors)
            if sent < len(data):
                self._outbox[0] = data[sent:], ()
            else:
                self._outbox.popleft()
        self._loop.remove_writer(self._connection)


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)

"""Messages between two processes of a server: pickled objects over a Unix socket, with file descriptors."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import pickle
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from server.processes.messages import Question

T = TypeVar("T")
_LENGTH = struct.Struct("!I")
_READ_BYTES = 64 * 1024
_MAX_DESCRIPTORS = 16
log = logging.getLogger("sonant")


class PeerLost(Exception):
    """The other process has ended, does not answer in time, or has failed to answer."""


@dataclass(frozen=True, slots=True)
class _Envelope:
    """What is sent. question, answer: its number, if it is one. descriptors: how many come with it."""

    content: object
    question: int | None = None
    answer: int | None = None
    descriptors: int = 0


class Handler(Protocol):
    """What a process does with the messages of another one."""

    def received(self, message: object, descriptors: list[int]) -> None:
        """Handle a message. Takes ownership of the descriptors that came with it."""

    async def answer(self, question: Question[Any]) -> object:
        """Return the answer to a question."""

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

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message. Takes ownership of the descriptors. No-op once the other process has ended."""
        self._send(_Envelope(message, descriptors=len(descriptors)), descriptors)

    def _send(self, envelope: _Envelope, descriptors: Sequence[int] = ()) -> None:
        if self._closed:
            _close_all(descriptors)
            return
        data = pickle.dumps(envelope)
        self._outbox.append((_LENGTH.pack(len(data)) + data, descriptors))
        if len(self._outbox) == 1:
            self._write()

    async def ask(self, question: Question[T], timeout: float | None) -> T:
        """Return the answer of the other process. Raises PeerLost, after ``timeout`` seconds without an answer too."""
        if self._closed:
            raise PeerLost
        number = next(self._numbers)
        answer: asyncio.Future[T] = self._loop.create_future()
        self._questions[number] = answer
        self._send(_Envelope(question, question=number))
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
        try:
            for envelope in self._complete():
                if not self._closed:
                    self._handle(envelope)
        except Exception:
            log.exception("a message of another HTTP process could not be handled")
            data = b""
        if not data:
            self._end()

    def _end(self) -> None:
        """Handle the end of the other process, or of the connection."""
        if not self._closed:
            self.close()
            self._handler.disconnected()

    def _complete(self) -> list[_Envelope]:
        """Return what has arrived completely."""
        envelopes, start = [], 0
        while len(self._received) >= start + _LENGTH.size:
            begin = start + _LENGTH.size
            (length,) = _LENGTH.unpack_from(self._received, start)
            if len(self._received) < begin + length:
                break
            start = begin + length
            envelopes.append(pickle.loads(self._received[begin:start]))
        del self._received[:start]
        return envelopes

    def _handle(self, envelope: _Envelope) -> None:
        content = envelope.content
        descriptors = [self._descriptors.popleft() for _ in range(envelope.descriptors)]
        if envelope.answer is not None:
            if (answer := self._questions.get(envelope.answer)) is None or answer.done():
                return
            if isinstance(content, PeerLost):
                answer.set_exception(content)
            else:
                answer.set_result(content)
        elif envelope.question is not None:
            assert isinstance(content, Question)
            task = self._loop.create_task(self._answer(envelope.question, self._handler.answer(content)))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        else:
            self._handler.received(content, descriptors)

    async def _answer(self, number: int, value: Awaitable[object]) -> None:
        try:
            self._send(_Envelope(await value, answer=number))
        except Exception:
            log.exception("a question of another HTTP process could not be answered")
            self._send(_Envelope(PeerLost(), answer=number))

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
                self._loop.call_soon(self._end)  # not here: the caller does not expect it
                return
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

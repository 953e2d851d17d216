"""A speech server whose responses the test sends piece by piece."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FRAME = 1920
"""Samples per codec frame."""


def silence(samples: int) -> bytes:
    return bytes(2 * samples)


def sound(samples: int) -> bytes:
    """Audible samples."""
    return np.full(samples, 8000, "<i2").tobytes()


@dataclass
class ReceivedRequest:
    """A request and the means to answer it."""

    number: int
    head: str
    body: dict[str, Any]
    _writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def begin(self, status: str = "200 OK", **headers: str) -> None:
        """Send the head of a chunked response."""
        given = {"Content-Type": "audio/pcm", "Transfer-Encoding": "chunked"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in given.items() if value)]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def piece(self, data: bytes) -> None:
        """Send a chunk; an empty one ends the response."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def speak(self, *pieces: bytes) -> None:
        """Send a complete response."""
        await self.begin()
        for piece in (*pieces, b""):
            await self.piece(piece)


Answer = Callable[[ReceivedRequest], Awaitable[None]]


@dataclass
class StandIn:
    """Records requests, and how many are in flight now and at most."""

    answer: Answer
    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    in_flight: int = 0
    max_in_flight: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].split()[0])
            request = ReceivedRequest(len(self.requests), head, json.loads(await reader.readexactly(length)), writer)
            self.requests.append(request)
            await self._count(1)
            await self.answer(request)
            await self._count(-1)
        writer.close()

    async def _count(self, change: int) -> None:
        async with self.changed:
            self.in_flight += change
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
            self.changed.notify_all()


@asynccontextmanager
async def stand_in_server(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[StandIn]:
    """A server that handles each request with ``answer``."""
    stand_in = StandIn(answer)
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    stand_in.url = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
    try:
        yield stand_in
    finally:
        server.close()

"""A speech server whose answers the test writes, piece by piece."""

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
"""Samples of a codec frame."""


def silence(samples: int) -> bytes:
    return bytes(2 * samples)


def sound(samples: int) -> bytes:
    """Samples that can be heard."""
    return np.full(samples, 8000, "<i2").tobytes()


@dataclass
class Asked:
    """A request, and the way to answer it."""

    number: int
    head: str
    body: dict[str, Any]
    _writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """These bytes, as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def begin(self, status: str = "200 OK", **headers: str) -> None:
        """The head of an answer in chunks."""
        given = {"Content-Type": "audio/pcm", "Transfer-Encoding": "chunked"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in given.items() if value)]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def piece(self, data: bytes) -> None:
        """A chunk; an empty one is the end."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def speak(self, *pieces: bytes) -> None:
        """A whole answer."""
        await self.begin()
        for piece in (*pieces, b""):
            await self.piece(piece)


Answer = Callable[[Asked], Awaitable[None]]


@dataclass
class StandIn:
    """What it was asked, and how many requests it had at once, at most and now."""

    answer: Answer
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    now: int = 0
    most: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].split()[0])
            asked = Asked(len(self.asked), head, json.loads(await reader.readexactly(length)), writer)
            self.asked.append(asked)
            await self._count(1)
            await self.answer(asked)
            await self._count(-1)
        writer.close()

    async def _count(self, change: int) -> None:
        async with self.changed:
            self.now += change
            self.most = max(self.most, self.now)
            self.changed.notify_all()


@asynccontextmanager
async def standing_in(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[StandIn]:
    """A server that answers so."""
    stand_in = StandIn(answer)
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    stand_in.url = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
    try:
        yield stand_in
    finally:
        server.close()

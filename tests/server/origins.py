"""Web servers that serve recordings, including malicious ones."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Origin:
    """A server with one response for each path. heads: requests received; left: set when a client disconnects early."""

    pages: dict[str, Answer]
    port: int = 0
    heads: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    requested: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection with one response."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            self.requested.set()
            await self.pages[head.split(" ")[1]](writer)
            await writer.drain()
            writer.close()
            return
        self.left.set()
        writer.close()


@asynccontextmanager
async def origin(
    pages: dict[str, Answer] | None = None,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Origin]:
    """A server of ``pages`` on a loopback address."""
    origin_server = Origin(pages or {})
    server = await asyncio.start_server(origin_server.serve, address, port, ssl=tls)
    origin_server.port = server.sockets[0].getsockname()[1]
    try:
        yield origin_server
    finally:
        server.close()


def page(body: bytes = b"", status: str = "200 OK", **headers: str) -> Answer:
    """A complete response."""
    given = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, given) + body)

    return answer


def redirect(location: str, status: str = "302 Found") -> Answer:
    """A redirect to ``location``."""
    return page(b"elsewhere", status, Location=location)


def raw(data: bytes) -> Answer:
    """Arbitrary bytes, possibly not HTTP."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


def endless(status: str = "200 OK", **headers: str) -> Answer:
    """A response body without end, sent as fast as the client reads."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, headers))
        while True:
            writer.write(bytes(65_536))
            await writer.drain()

    return answer


def drip(head: bytes | None = None) -> Answer:
    """One byte at a time, forever: of a body, or of ``head`` and further headers."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(_head("200 OK", {}) if head is None else head)
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.01)

    return answer


def _head(status: str, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()

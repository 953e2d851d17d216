"""Clients that a server must be able to bear: they connect and say nothing, stop in the middle, read slowly, vanish.

    python -m benchmarks.hostile ADDRESS [--clients 200] [--seconds 600] [--speaking 4] [--seed 1]

Each client does one thing after another until the time is over, then every connection is broken off at once. Prints
how often each thing was done, as JSON. ``--speaking``: how many of them may have speech made at a time; the others of
that moment do something that costs no speech. More would be load, and load is another question.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlsplit

_LONG = "This is said to somebody who does not listen, and it goes on for as long as nobody hangs up. " * 20
_SMALL_WINDOW = 4096
"""Bytes that the system may take for a client that does not read."""
_LONGEST_STALL = 90.0
"""Seconds; the server should have given such a client up before."""


@dataclass
class Hostile:
    """One client: where it connects, and its own source of chance."""

    host: str
    port: int
    random: Random

    async def say_nothing(self) -> None:
        """Connect, and wait for the server to hang up."""
        await self._until_hung_up(b"")

    async def stop_in_head(self) -> None:
        """Half of a request's head."""
        await self._until_hung_up(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Ty")

    async def stop_in_body(self) -> None:
        """Half of a request's body, and then a byte now and then."""
        with await self._connected() as connection:
            await self._send(connection, _head(4000) + b'{"input": "')
            end = time.monotonic() + self.random.uniform(1, _LONGEST_STALL)
            while time.monotonic() < end:
                await self._send(connection, b"a")
                await self._hesitate(0.2, 2)

    async def talk_nonsense(self) -> None:
        """What is no HTTP."""
        await self._until_hung_up(self.random.randbytes(self.random.randint(1, 5000)) + b"\r\n\r\n")

    async def open_session(self) -> None:
        """A live session that never says anything, or half a frame."""
        key = base64.b64encode(self.random.randbytes(16)).decode()
        head = (
            "GET /v1/audio/speech/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        await self._until_hung_up(head.encode() + self.random.choice((b"", b"\x81\xfe\x10\x00\0\0\0\0{")))

    async def read_slowly(self) -> None:
        """Take speech at a tenth of the pace it is played at, then hang up."""
        with await self._connected(_SMALL_WINDOW) as connection:
            await self._send(connection, _speech())
            async with asyncio.timeout(self.random.uniform(5, 40)):
                while await self._read(connection, 1024):
                    await self._hesitate(0.2, 0.2)

    async def stall(self) -> None:
        """Ask for speech and take nothing of it."""
        with await self._connected(_SMALL_WINDOW) as connection:
            await self._send(connection, _speech())
            await asyncio.sleep(self.random.uniform(5, _LONGEST_STALL))

    async def vanish(self) -> None:
        """Ask for speech, hear its beginning, and be gone."""
        with await self._connected() as connection:
            await self._send(connection, _speech())
            await self._read(connection, 4096)

    async def _hesitate(self, least: float, most: float) -> None:
        await asyncio.sleep(self.random.uniform(least, most))

    async def _until_hung_up(self, data: bytes) -> None:
        """Send ``data`` and nothing more; leave when the server does, or before."""
        with await self._connected() as connection:
            await self._send(connection, data)
            async with asyncio.timeout(self.random.uniform(1, _LONGEST_STALL)):
                while await self._read(connection, 4096):
                    pass

    async def _connected(self, window: int | None = None) -> socket.socket:
        """A connection that is broken off, not closed, when it is left."""
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if window:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        try:
            await asyncio.get_running_loop().sock_connect(connection, (self.host, self.port))
        except BaseException:
            connection.close()
            raise
        return connection

    async def _send(self, connection: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(connection, data)

    async def _read(self, connection: socket.socket, most: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(connection, most)


Deed = Callable[[Hostile], Awaitable[None]]
QUIET: tuple[Deed, ...] = (
    Hostile.say_nothing,
    Hostile.stop_in_head,
    Hostile.stop_in_body,
    Hostile.talk_nonsense,
    Hostile.open_session,
)
"""What costs no speech."""
LOUD: tuple[Deed, ...] = (Hostile.read_slowly, Hostile.stall, Hostile.vanish)
"""What does."""


def _head(length: int) -> bytes:
    return (
        "POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def _speech() -> bytes:
    body = json.dumps({"input": _LONG, "response_format": "pcm", "split": "sentence"}).encode()
    return _head(len(body)) + body


@dataclass
class Crowd:
    """Many of them. done: how often each thing was; speaking: how many may have speech made at a time."""

    address: str
    speaking: int
    seed: int
    done: Counter[str] = field(default_factory=Counter)

    async def run(self, clients: int, seconds: float) -> None:
        """``clients`` of them for so long."""
        self._turns = asyncio.Semaphore(self.speaking)
        members = [asyncio.create_task(self._one(number)) for number in range(clients)]
        await asyncio.wait(members, timeout=seconds)
        for member in members:
            member.cancel()
        await asyncio.gather(*members, return_exceptions=True)

    async def _one(self, number: int) -> None:
        url = urlsplit(self.address)
        random = Random(f"{self.seed} {number}")
        client = Hostile(url.hostname or "", url.port or 0, random)
        while True:
            await asyncio.sleep(random.uniform(0, 2))
            if random.random() < 0.5 and not self._turns.locked():
                async with self._turns:
                    await self._do(random.choice(LOUD), client)
            else:
                await self._do(random.choice(QUIET), client)

    async def _do(self, deed: Deed, client: Hostile) -> None:
        self.done[deed.__name__] += 1
        try:
            await deed(client)
        except (OSError, TimeoutError):
            self.done["hung up on"] += 1


def main() -> None:
    """Be hostile for a while."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--speaking", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if urlsplit(given.address).hostname not in ("127.0.0.1", "::1", "localhost"):
        parser.error("ADDRESS must be this machine's own: a server of somebody else's is no place for this")
    crowd = Crowd(given.address, given.speaking, given.seed)
    asyncio.run(crowd.run(given.clients, given.seconds))
    print(json.dumps(crowd.done))


if __name__ == "__main__":
    main()

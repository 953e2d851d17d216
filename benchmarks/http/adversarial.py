"""Adversarial clients: idle connections, incomplete requests, slow readers, floods, files that crash decoders.

    python -m benchmarks.http.adversarial ADDRESS [--clients 200] [--seconds 600] [--speaking 4] [--seed 1]

The clients begin one by one within the first ten seconds. Each runs one attack after another until the time is over;
then all connections are reset. Prints ``ready`` when the process has started, and at the end the number of runs of each
attack, as JSON. ``--speaking`` limits how many clients request speech at a time, because more would
measure load, not abuse. The clients connect from eight loopback addresses other than 127.0.0.1. Start the process with
a low CPU priority (``nice``), because in practice such clients run on other machines and do not use the server's CPU.
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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlsplit

from tests.server.malicious_recordings import MALICIOUS

_LONG_TEXT = "This is read to a client that does not read it, and it goes on until one of them disconnects. " * 20
_SMALL_WINDOW = 4096
"""Receive buffer (SO_RCVBUF) in bytes of a client that does not read."""
_LONGEST_STALL = 90.0
"""Maximum seconds that a client stalls. The server should have disconnected it before."""
_ADDRESSES = [f"127.0.0.{last}" for last in range(2, 10)]
"""Source addresses of the clients. Per-client limits apply to each of them."""
_PARTIAL_BODY = 2**20
"""Size in bytes of an incomplete body."""
_RESPONSE_TIMEOUT_S = 20.0
_ARRIVAL_S = 10.0
_BURST = 50
"""Requests, messages or connections per attack."""


@dataclass
class AdversarialClient:
    """One adversarial client. host, port: of the server. random: its own random number generator."""

    host: str
    port: int
    random: Random

    async def send_nothing(self) -> None:
        """Connect, send nothing, and wait for the server to disconnect."""
        await self._until_disconnected(b"")

    async def stop_in_head(self) -> None:
        """Send an incomplete request header."""
        await self._until_disconnected(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Ty")

    async def stop_in_body(self) -> None:
        """Send an incomplete request body, then trickle single bytes."""
        async with self._connected() as connection:
            await self._send(connection, _head(4000) + b'{"input": "')
            end = time.monotonic() + self.random.uniform(1, _LONGEST_STALL)
            while time.monotonic() < end:
                await self._send(connection, b"a")
                await self._pause(0.2, 2)

    async def send_garbage(self) -> None:
        """Send random bytes instead of HTTP."""
        await self._until_disconnected(self.random.randbytes(self.random.randint(1, 5000)) + b"\r\n\r\n")

    async def open_session(self) -> None:
        """Open a live session and send nothing, or an incomplete frame."""
        await self._until_disconnected(
            _handshake(self.random) + self.random.choice((b"", b"\x81\xfe\x10\x00\0\0\0\0{"))
        )

    async def read_slowly(self) -> None:
        """Read speech at a tenth of real time, then disconnect."""
        async with self._connected(_SMALL_WINDOW) as connection:
            await self._send(connection, _speech())
            async with asyncio.timeout(self.random.uniform(5, 40)):
                while await self._read(connection, 1024):
                    await self._pause(0.2, 0.2)

    async def stall(self) -> None:
        """Request speech and read nothing."""
        async with self._connected(_SMALL_WINDOW) as connection:
            await self._send(connection, _speech())
            await asyncio.sleep(self.random.uniform(5, _LONGEST_STALL))

    async def vanish(self) -> None:
        """Request speech, read its start, and disconnect."""
        async with self._connected() as connection:
            await self._send(connection, _speech())
            await self._read(connection, 4096)

    async def trickle_text(self) -> None:
        """Send a word every few seconds in a live session, which keeps the talker waiting."""
        async with self._session() as connection:
            await self._send(connection, _frame(json.dumps({"type": "session.config"}).encode()))
            async with asyncio.timeout(self.random.uniform(5, _LONGEST_STALL)):
                while True:
                    await self._send(connection, _frame(json.dumps({"type": "input.text", "text": "again "}).encode()))
                    await self._read(connection, 65_536)
                    await self._pause(2, 10)

    async def send_dangerous_recording(self) -> None:
        """Send a recording that crashes its decoder, or makes it allocate gigabytes."""
        recording = base64.b64encode(self.random.choice(list(MALICIOUS.values()))()).decode()
        body = json.dumps({"input": "Hello.", "ref_audio": f"data:audio/ogg;base64,{recording}"}).encode()
        await self._until_disconnected(_head(len(body)) + body)

    async def send_partial_body(self) -> None:
        """Send one megabyte of a body and never the rest."""
        await self._until_disconnected(_head(16 * 2**20 - 1) + b'{"input": "' + b"a" * _PARTIAL_BODY)

    async def flood_pings(self) -> None:
        """Send megabytes of WebSocket pings without reading the pongs."""
        async with self._session(_SMALL_WINDOW) as connection, asyncio.timeout(self.random.uniform(1, 10)):
            while True:
                await self._send(connection, _frame(b"p" * 125, opcode=9) * 100)
                await self._pause(0.1, 0.2)

    async def send_long_names(self) -> None:
        """Send paths of 60 kB, and a live message with a field name of 1 MB."""
        for _ in range(_BURST // 10):
            await self._send_and_read(f"GET /{'x' * 60_000} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with self._session() as connection, asyncio.timeout(_RESPONSE_TIMEOUT_S):
            await self._send(connection, _frame(json.dumps({"type": "cancel", "y" * 2**20: 1}).encode()))
            while await self._read(connection, 65_536):
                pass

    async def hoard_connections(self) -> None:
        """Hold many idle connections at once."""
        async with AsyncExitStack() as stack:
            for _ in range(_BURST):
                await stack.enter_async_context(self._connected())
            await self._pause(1, 30)

    async def rebind(self) -> None:
        """Request private data with a foreign Host header (DNS rebinding)."""
        for path in ("/v1/audio/voices", "/metrics", "/v1/audio/speech/req_1", "/v1/models"):
            await self._send_and_read(f"GET {path} HTTP/1.1\r\nHost: rebound.example\r\n\r\n".encode())

    async def smuggle(self) -> None:
        """Try request smuggling: Content-Length with Transfer-Encoding, absolute-form targets, pipelined requests."""
        both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        await self._send_and_read(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\n" + both)
        await self._send_and_read(b"GET http://x/health HTTP/1.1\r\nHost: y\r\n\r\n" * _BURST)

    async def _send_and_read(self, data: bytes) -> None:
        """Send ``data`` and read the start of the response."""
        async with self._connected() as connection, asyncio.timeout(_RESPONSE_TIMEOUT_S):
            await self._send(connection, data)
            await self._read(connection, 65_536)

    @asynccontextmanager
    async def _session(self, window: int | None = None) -> AsyncIterator[socket.socket]:
        """Open a live session and complete its handshake."""
        async with self._connected(window) as connection:
            await self._send(connection, _handshake(self.random))
            await self._read(connection, 4096)
            yield connection

    async def _pause(self, min_seconds: float, max_seconds: float) -> None:
        await asyncio.sleep(self.random.uniform(min_seconds, max_seconds))

    async def _until_disconnected(self, data: bytes) -> None:
        """Send ``data`` and nothing more. Disconnect when the server does, or after a random timeout."""
        async with self._connected() as connection:
            await self._send(connection, data)
            async with asyncio.timeout(self.random.uniform(1, _LONGEST_STALL)):
                while await self._read(connection, 4096):
                    pass

    @asynccontextmanager
    async def _connected(self, window: int | None = None) -> AsyncIterator[socket.socket]:
        """Open a connection that is reset (RST), not closed, on exit. window: receive buffer in bytes."""
        with socket.socket() as connection:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if window:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            connection.bind((self.random.choice(_ADDRESSES), 0))
            await asyncio.get_running_loop().sock_connect(connection, (self.host, self.port))
            yield connection

    async def _send(self, connection: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(connection, data)

    async def _read(self, connection: socket.socket, max_bytes: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(connection, max_bytes)


Attack = Callable[[AdversarialClient], Awaitable[None]]
ATTACKS: tuple[Attack, ...] = (
    AdversarialClient.send_nothing,
    AdversarialClient.stop_in_head,
    AdversarialClient.stop_in_body,
    AdversarialClient.send_garbage,
    AdversarialClient.open_session,
    AdversarialClient.send_dangerous_recording,
    AdversarialClient.send_partial_body,
    AdversarialClient.flood_pings,
    AdversarialClient.send_long_names,
    AdversarialClient.hoard_connections,
    AdversarialClient.rebind,
    AdversarialClient.smuggle,
)
"""Attacks without speech synthesis."""
SPEECH_ATTACKS: tuple[Attack, ...] = (
    AdversarialClient.read_slowly,
    AdversarialClient.stall,
    AdversarialClient.vanish,
    AdversarialClient.trickle_text,
)
"""Attacks that request speech synthesis."""


def _head(length: int) -> bytes:
    return (
        "POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def _handshake(random: Random) -> bytes:
    key = base64.b64encode(random.randbytes(16)).decode()
    return (
        "GET /v1/audio/speech/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def _frame(payload: bytes, opcode: int = 1) -> bytes:
    """Return a complete masked WebSocket frame (RFC 6455, section 5.2); the mask is zero."""
    length = len(payload)
    if length < 126:
        size = struct.pack(">B", 0x80 | length)
    elif length < 2**16:
        size = struct.pack(">BH", 0x80 | 126, length)
    else:
        size = struct.pack(">BQ", 0x80 | 127, length)
    return bytes([0x80 | opcode]) + size + bytes(4) + payload


def _speech() -> bytes:
    body = json.dumps({"input": _LONG_TEXT, "response_format": "pcm", "split": "sentence"}).encode()
    return _head(len(body)) + body


@dataclass
class ClientGroup:
    """A group of adversarial clients.

    runs: number of runs by attack. speaking: maximum number of clients that request speech at a time.
    """

    address: str
    speaking: int
    seed: int
    runs: Counter[str] = field(default_factory=Counter)

    async def run(self, clients: int, seconds: float) -> None:
        """Run ``clients`` clients for ``seconds``."""
        self._speech_slots = asyncio.Semaphore(self.speaking)
        tasks = [asyncio.create_task(self._run_client(number)) for number in range(clients)]
        await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_client(self, number: int) -> None:
        url = urlsplit(self.address)
        random = Random(f"{self.seed} {number}")
        client = AdversarialClient(url.hostname or "", url.port or 0, random)
        await asyncio.sleep(random.uniform(0, _ARRIVAL_S))
        while True:
            await asyncio.sleep(random.uniform(0, 2))
            if random.random() < 0.5 and not self._speech_slots.locked():
                async with self._speech_slots:
                    await self._run_attack(random.choice(SPEECH_ATTACKS), client)
            else:
                await self._run_attack(random.choice(ATTACKS), client)

    async def _run_attack(self, attack: Attack, client: AdversarialClient) -> None:
        self.runs[attack.__name__] += 1
        try:
            await attack(client)
        except (OSError, TimeoutError):
            self.runs["disconnected"] += 1


def main() -> None:
    """Run the adversarial clients and print the number of runs of each attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="URL of a server on this machine")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--speaking", type=int, default=4, help="maximum number of clients that request speech at a time"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if urlsplit(args.address).hostname not in ("127.0.0.1", "::1", "localhost"):
        parser.error(f"ADDRESS must be on this machine (127.0.0.1, ::1 or localhost), got {args.address}")
    print("ready", flush=True)
    group = ClientGroup(args.address, args.speaking, args.seed)
    asyncio.run(group.run(args.clients, args.seconds))
    print(json.dumps(group.runs))


if __name__ == "__main__":
    main()

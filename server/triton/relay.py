"""Accepts gRPC connections, counts them with those of the other protocols, and passes their bytes to gRPC's listener.

gRPC limits connections in total, but not by client address, and it cannot use connections that another listener
accepted.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from server.errors import ApiError
from server.http.closing import LingeringClose
from server.http.connection_table import ConnectionTable
from server.http.descriptors import ACCEPT_BATCH, prepare_listeners

_HOST = "127.0.0.1"
"""Where gRPC listens."""
_DESCRIPTORS = 3
"""Of a connection: the client's, and both ends of the one to gRPC."""
_BUFFER_BYTES = 64 * 1024
"""Bytes that wait to be written before reading from the other side pauses."""
_REFUSAL_SECONDS = 1.0
"""Upper bound on how long a refused connection waits for its client to close."""
_PEER = re.compile(rf"ipv4:{re.escape(_HOST)}:(?P<port>\d+)")
_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""gRPC clients fail with UNAVAILABLE and name this status. After a GOAWAY they connect again at once, without end."""


class Relay:
    """Relays the connections to a bound socket. Use it in one event loop.

    connections: the open connections of the server, whose limits these connections share.
    """

    def __init__(self, bound: socket.socket, connections: ConnectionTable) -> None:
        self._bound, self._connections = bound, connections
        self._clients: dict[int, _Client] = {}
        """By the local port of the connection to gRPC."""

    async def start(self, port: int) -> None:
        """Accept connections. port: where gRPC listens."""
        self._port = port
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), sock=self._bound, backlog=ACCEPT_BATCH)
        prepare_listeners([self._bound])

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._server.close()
        for client in [*self._clients.values()]:
            client.transport.close()

    def host_of(self, peer: str) -> str:
        """Return the address of the client of a call. Raises ApiError 403 for a connection that was not relayed.

        peer: as ``ServicerContext.peer`` names it.
        """
        return self._client(peer).host

    @contextmanager
    def busy(self, peer: str) -> Iterator[None]:
        """Mark a connection as busy, so that it is not closed in favor of a new one, until the context ends."""
        client = self._client(peer)
        client.calls += 1
        self._connections.set_busy(client.transport)
        try:
            yield
        finally:
            client.calls -= 1
            if not client.calls:
                self._connections.set_idle(client.transport)

    def _client(self, peer: str) -> _Client:
        match = _PEER.fullmatch(peer)
        client = self._clients.get(int(match["port"])) if match else None
        if client is None:
            message = "this port is internal; connect to the address of the gRPC listener"
            raise ApiError(message, status=403, code="forbidden")
        return client

    def admit(self, client: _Client) -> bool:
        """Count a new connection. Return False if a limit is reached."""
        return self._connections.add(client.transport, client.host, _DESCRIPTORS)

    async def connect(self, client: _Client) -> None:
        """Connect a client to gRPC. Closes its connection if that fails."""
        loop = asyncio.get_running_loop()
        try:
            _, upstream = await loop.create_connection(lambda: _Upstream(client), _HOST, self._port)
        except OSError:
            client.transport.abort()
            return
        if client.transport.is_closing():
            upstream.transport.abort()
            return
        client.other = upstream
        client.port = upstream.transport.get_extra_info("sockname")[1]
        self._clients[client.port] = client
        client.transport.resume_reading()

    def forget(self, client: _Client) -> None:
        """Remove a closed connection."""
        self._connections.remove(client.transport)
        self._clients.pop(client.port, None)


class _Side(asyncio.Protocol):
    """One side of a relayed connection. What it receives is sent on the other side."""

    transport: asyncio.Transport
    other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_BUFFER_BYTES)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()


class _Client(_Side):
    """The connection of a client."""

    port = 0

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.calls = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.host = str((self.transport.get_extra_info("peername") or [""])[0])
        if self._relay.admit(self):
            self.transport.pause_reading()
            self._connecting = asyncio.create_task(self._relay.connect(self))
        else:
            self.transport.write(_REFUSAL)
            LingeringClose(self.transport, self, _REFUSAL_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.forget(self)
        if self.other is not None:
            self.other.transport.abort()
            self.other.other = None
            self.other = None


class _Upstream(_Side):
    """The connection to gRPC for a client."""

    def __init__(self, client: _Client) -> None:
        self.other = client

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()
            self.other.other = None
            self.other = None

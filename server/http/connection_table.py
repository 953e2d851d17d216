"""The open connections of a server: limits their number, and evicts idle ones."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict

from server.http.clients import address_key

_IdleConnections = OrderedDict[asyncio.Transport, None]


class ConnectionTable:
    """Counts connections, in total and by client address, and evicts the longest-idle one when a limit is reached.

    A connection is idle while no request is in progress on it: it has sent nothing yet, or it waits between two
    requests (keep-alive). WebSockets are never idle. Not thread-safe: for one event loop.

    Args:
        most: maximum number of connections.
        share: fraction of ``most`` that one client address (IPv6: one /64) may hold, above 0 and at most 1.
    """

    def __init__(self, most: int, share: float) -> None:
        self._most = most
        self._most_per_client = max(1, int(most * share))
        self._clients: dict[asyncio.Transport, str] = {}
        self._open_by_client: Counter[str] = Counter()
        self._idle: _IdleConnections = OrderedDict()
        self._idle_by_client: dict[str, _IdleConnections] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, transport: asyncio.Transport, host: str) -> bool:
        """Count a new connection as idle. Return False if a limit is reached and no idle connection can be closed."""
        client = address_key(host)
        if self._open_by_client[client] >= self._most_per_client and not self._evict(self._idle_by_client.get(client)):
            return False
        if len(self._clients) >= self._most and not self._evict(self._idle):
            return False
        self._clients[transport] = client
        self._open_by_client[client] += 1
        self.set_idle(transport)
        return True

    def remove(self, transport: asyncio.Transport) -> None:
        """Remove a connection. No effect if it is not counted."""
        self.set_busy(transport)
        client = self._clients.pop(transport, None)
        if client is None:
            return
        self._open_by_client[client] -= 1
        if not self._open_by_client[client]:
            del self._open_by_client[client]

    def set_busy(self, transport: asyncio.Transport) -> None:
        """Mark the connection as busy: a request has begun."""
        if transport not in self._idle:
            return
        del self._idle[transport]
        client = self._clients[transport]
        del self._idle_by_client[client][transport]
        if not self._idle_by_client[client]:
            del self._idle_by_client[client]

    def set_idle(self, transport: asyncio.Transport) -> None:
        """Mark the connection as idle: no request is in progress. No effect if it is not counted."""
        client = self._clients.get(transport)
        if client is None or transport in self._idle:
            return
        self._idle[transport] = None
        self._idle_by_client.setdefault(client, OrderedDict())[transport] = None

    def _evict(self, idle: _IdleConnections | None) -> bool:
        """Close the longest-idle connection; return False if there is none. abort() frees its descriptor at once."""
        if not idle:
            return False
        oldest = next(iter(idle))
        self.remove(oldest)
        oldest.abort()
        return True

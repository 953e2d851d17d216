"""The open connections of a server: their limits, and the eviction of idle ones."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict

from server.http.clients import address_key

_IdleConnections = OrderedDict[asyncio.Transport, None]


class ConnectionTable:
    """Counts connections, in total and by address, and evicts the longest-idle one when a limit is reached.

    A connection is idle while no request is in progress on it: it has sent nothing yet, or it waits between two
    requests (keep-alive). WebSockets are never idle. Not thread-safe: for one event loop.

    Args:
        max_connections: maximum number of connections.
        address_share: fraction of ``max_connections`` that one address (IPv6: one /64) may hold, above 0 and at most 1.
    """

    def __init__(self, max_connections: int, address_share: float) -> None:
        self.max_connections = max_connections
        self._max_per_address = max(1, int(max_connections * address_share))
        self._addresses: dict[asyncio.Transport, tuple[str, int]] = {}
        """The address and the weight of each connection."""
        self._open = 0
        self._open_by_address: Counter[str] = Counter()
        self._idle: _IdleConnections = OrderedDict()
        self._idle_by_address: dict[str, _IdleConnections] = {}

    def __len__(self) -> int:
        return self._open

    def add(self, transport: asyncio.Transport, host: str, weight: int = 1) -> bool:
        """Count a new connection as idle. Return False if a limit is reached and no idle connection can be closed.

        weight: number of connections that it counts as: the file descriptors that it needs.
        """
        address = address_key(host)
        while self._open_by_address[address] + weight > max(weight, self._max_per_address):
            if not self._evict(self._idle_by_address.get(address)):
                return False
        while self._open + weight > self.max_connections:
            if not self._evict(self._idle):
                return False
        self._addresses[transport] = address, weight
        self._open_by_address[address] += weight
        self._open += weight
        self.set_idle(transport)
        return True

    def remove(self, transport: asyncio.Transport) -> None:
        """Remove a connection. No effect if it is not counted."""
        self.set_busy(transport)
        if transport not in self._addresses:
            return
        address, weight = self._addresses.pop(transport)
        self._open -= weight
        self._open_by_address[address] -= weight
        if not self._open_by_address[address]:
            del self._open_by_address[address]

    def set_busy(self, transport: asyncio.Transport) -> None:
        """Mark the connection as busy: a request has begun."""
        if transport not in self._idle:
            return
        del self._idle[transport]
        address, _ = self._addresses[transport]
        del self._idle_by_address[address][transport]
        if not self._idle_by_address[address]:
            del self._idle_by_address[address]

    def set_idle(self, transport: asyncio.Transport) -> None:
        """Mark the connection as idle: no request is in progress. No effect if it is not counted."""
        if transport not in self._addresses or transport in self._idle:
            return
        address, _ = self._addresses[transport]
        self._idle[transport] = None
        self._idle_by_address.setdefault(address, OrderedDict())[transport] = None

    def _evict(self, idle: _IdleConnections | None) -> bool:
        """Close the longest-idle connection; return False if there is none. abort() frees its descriptor at once."""
        if not idle:
            return False
        oldest = next(iter(idle))
        self.remove(oldest)
        oldest.abort()
        return True

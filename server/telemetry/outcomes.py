"""Remembers the outcome of requests for an hour."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from server.telemetry.record import RequestRecord

KEPT_SECONDS = 3600.0

_NOT_KEPT = frozenset({401, 403})
"""Refused before anything was done for them: they must not evict the requests of real clients."""
_Key = tuple[str | None, str]
"""The owner of a request and its id: ids of different owners do not collide."""


class Outcomes:
    """The records of running requests, and of ended ones for an hour.

    most: ended requests kept at once; the oldest is evicted first. share: of them for one client, whose own oldest
    request is evicted for its next one, so that nobody evicts all the others.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, *, share: float = 1.0) -> None:
        self._most = most
        self._most_of_client = max(1, int(most * share))
        self._clock = clock
        self._running: dict[_Key, RequestRecord] = {}
        self._ended: OrderedDict[_Key, tuple[float, RequestRecord]] = OrderedDict()
        self._clients: dict[str, OrderedDict[_Key, None]] = {}

    def begun(self, record: RequestRecord) -> None:
        """A request has come in. Where a client uses an id twice, the last request counts."""
        self._running[record.owner, record.id] = record

    def ended(self, record: RequestRecord) -> None:
        """A request is over."""
        key = record.owner, record.id
        if self._running.get(key) is record:
            del self._running[key]
        if record.status in _NOT_KEPT:
            return
        now = self._clock()
        self._forget(key)
        self._ended[key] = now, record
        own = self._clients.setdefault(record.client, OrderedDict())
        own[key] = None
        if len(own) > self._most_of_client:
            self._forget(next(iter(own)))
        if len(self._ended) > self._most:
            self._forget(next(iter(self._ended)))
        self._expire(now)

    def find(self, request_id: str, owner: str | None = None) -> RequestRecord | None:
        """Return the request of that id that ``owner`` (a key's id; None on a server without keys) has made."""
        self._expire(self._clock())
        key = owner, request_id
        if key in self._running:
            return self._running[key]
        return self._ended[key][1] if key in self._ended else None

    def _forget(self, key: _Key) -> None:
        if key not in self._ended:
            return
        _, record = self._ended.pop(key)
        own = self._clients[record.client]
        del own[key]
        if not own:
            del self._clients[record.client]

    def _expire(self, now: float) -> None:
        while self._ended:
            key, (ended, _) = next(iter(self._ended.items()))
            if now - ended < KEPT_SECONDS:
                return
            self._forget(key)

"""What became of the requests of the last hour."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from server.request_record import RequestRecord

KEPT_SECONDS = 3600.0


class Outcomes:
    """The records of running requests, and of ended ones for an hour, the oldest leaving when there are ``most``."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._running: dict[str, RequestRecord] = {}
        self._ended: OrderedDict[str, tuple[float, RequestRecord]] = OrderedDict()

    def begun(self, record: RequestRecord) -> None:
        """A request has come in. Where a client uses an id twice, the last request counts."""
        self._running[record.id] = record

    def ended(self, record: RequestRecord) -> None:
        """A request is over. One that brought no key is not kept: strangers would drive out the others."""
        if record.status == 401:
            return
        if self._running.get(record.id) is record:
            del self._running[record.id]
        now = self._clock()
        self._ended.pop(record.id, None)
        self._ended[record.id] = now, record
        while len(self._ended) > self._most:
            self._ended.popitem(last=False)
        self._expire(now)

    def find(self, request_id: str) -> RequestRecord | None:
        """The request of that id."""
        self._expire(self._clock())
        if request_id in self._running:
            return self._running[request_id]
        return self._ended[request_id][1] if request_id in self._ended else None

    def _expire(self, now: float) -> None:
        while self._ended:
            request_id, (ended, _) = next(iter(self._ended.items()))
            if now - ended < KEPT_SECONDS:
                return
            del self._ended[request_id]

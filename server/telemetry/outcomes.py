"""Keeps the outcomes of requests for one hour."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Any

from server.telemetry.record import RequestRecord

KEPT_SECONDS = 3600.0

MAX_WORDS = 500_000
"""Word times that are kept of all ended requests together, in about 20 bytes each."""
_NOT_RECORDED = frozenset({401, 403})
"""Statuses of requests rejected before any work. They are not kept, so they cannot evict requests of real clients."""
_Key = tuple[str | None, str]
"""The owner and the id of a request, so that the same id from different owners does not collide."""


class Outcomes:
    """The records of requests in flight, and of requests that ended within the last hour.

    limit: maximum number of ended requests kept; the oldest is evicted first.
    share: maximum fraction of ``limit`` for one client. Above it the client's own oldest request is evicted, so one
        client cannot evict the requests of all others.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic, *, share: float = 1.0) -> None:
        self._limit = limit
        self._limit_of_client = max(1, int(limit * share))
        self._clock = clock
        self._running: dict[_Key, RequestRecord] = {}
        self._ended: OrderedDict[_Key, tuple[float, RequestRecord]] = OrderedDict()
        self._clients: dict[str, OrderedDict[_Key, None]] = {}
        self._worded: OrderedDict[_Key, int] = OrderedDict()
        """Number of word times of the ended requests that have any, oldest first."""
        self._words = 0

    def add_running(self, record: RequestRecord) -> None:
        """Add a speech request that has arrived. It replaces a running request with the same owner and id.

        Marks it as a speech request, so that the observers are notified of its end and it is removed here.
        """
        record.speech = True
        self._running[record.owner, record.id] = record

    def ended(self, record: RequestRecord) -> None:
        """Move a finished request from the running to the ended ones, and evict where a limit is exceeded."""
        key = record.owner, record.id
        if self._running.get(key) is record:
            del self._running[key]
        if record.status in _NOT_RECORDED:
            return
        now = self._clock()
        self._forget(key)
        self._ended[key] = now, record
        self._keep_words(key, record)
        own = self._clients.setdefault(record.client, OrderedDict())
        own[key] = None
        if len(own) > self._limit_of_client:
            self._forget(next(iter(own)))
        if len(self._ended) > self._limit:
            self._forget(next(iter(self._ended)))
        self._expire(now)

    def audio_left(self) -> float:
        """Return the seconds of audio that the listener with the least has; inf while nobody listens.

        Clients without any are left out: most of them do not read, and have all that the connection holds.
        """
        streams = (each.playback.remaining for each in self._running.values() if each.playback is not None)
        return min((seconds for seconds in streams if seconds > 0), default=inf)

    def find(self, request_id: str, owner: str | None = None) -> RequestRecord | None:
        """Return the request with that id, or None.

        Only requests of ``owner`` are found: the id of an API key, or None on a server without keys.
        """
        self._expire(self._clock())
        key = owner, request_id
        if key in self._running:
            return self._running[key]
        return self._ended[key][1] if key in self._ended else None

    def fields(self, request_id: str, owner: str | None = None) -> dict[str, Any] | None:
        """Return the outcome of the request with that id as JSON fields, or None. owner: see ``find``."""
        record = self.find(request_id, owner)
        if record is None:
            return None
        spoken = {} if record.spoken is None else {"spoken": record.spoken}
        return {"object": "audio.speech.outcome", **record.fields(), **spoken, **record.word_fields()}

    def _keep_words(self, key: _Key, record: RequestRecord) -> None:
        """Count the word times of ``record``, and drop the oldest ones when there are too many."""
        if record.words is None:
            return
        self._worded[key] = len(record.words)
        self._words += len(record.words)
        while self._words > MAX_WORDS:
            oldest, count = self._worded.popitem(last=False)
            self._words -= count
            self._ended[oldest][1].drop_words()

    def _forget(self, key: _Key) -> None:
        if key not in self._ended:
            return
        _, record = self._ended.pop(key)
        self._words -= self._worded.pop(key, 0)
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

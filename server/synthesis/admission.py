"""Admission control: limits running requests, queues others fairly per client, refuses or evicts the rest."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from bisect import insort
from collections import deque
from collections.abc import Callable
from statistics import fmean

from server.errors import RETRY_AFTER, ApiError
from server.http.clients import client_quota
from server.synthesis.admission_ticket import AdmissionTicket

_DURATION_SAMPLES = 32
"""Retry-After is computed from the mean duration of this many completed utterances."""
_MAX_RETRY_AFTER = 120
"""Upper bound of Retry-After, in seconds."""
_CONTENTION_GAP_SECONDS = 10.0
"""Seconds between contention periods.

If no request has waited for this long, the next one that waits starts a new contention period, and earlier client
lag is forgotten.
"""
_EVICTION_CHECK_SECONDS = 1.0
"""Interval of the eviction check while requests wait, in seconds."""


class Admission:
    """Limits concurrency: at most ``running`` requests run at once, and at most ``waiting`` queue behind them.

    When fewer than ``running`` requests run, the waiting client with the fewest running requests starts the next one.
    Ties are first come, first served. Not thread-safe: for one event loop.

    Args:
        running: maximum number of running requests.
        waiting: maximum number of queued requests.
        share: the fraction of the queue that one client may use, and of the running requests that it may keep while
            others wait.
        contended_wait: seconds that a client may keep the engine waiting, beyond the audio it received, while other
            requests are queued.
        recall_after: seconds that a client below its quota of running requests waits before a request of a client above
            its quota is evicted.
        surplus: ``running`` divided by the slots for these requests.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        running: int,
        waiting: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        share: float = 1.0,
        contended_wait: float = math.inf,
        recall_after: float = math.inf,
        surplus: float = 1.0,
    ) -> None:
        self._clock, self._surplus = clock, surplus
        self._share = share
        self._max_running, self._running_quota = running, client_quota(running, share)
        self.configure(waiting, contended_wait, recall_after)
        self._running: set[AdmissionTicket] = set()
        self._running_by_client: dict[str, int] = {}
        self._waiting = 0
        self._waiting_by_client: dict[str, int] = {}
        self._queues: dict[str, list[AdmissionTicket]] = {}
        """The tickets that wait to run, by client, in queue order."""
        self._positions = itertools.count()
        self._durations: deque[float] = deque(maxlen=_DURATION_SAMPLES)
        self._closed = False
        self._eviction_timer: asyncio.TimerHandle | None = None
        self._contention_ended_at = -math.inf

    def configure(self, waiting: int, contended_wait: float, recall_after: float) -> None:
        """Change the limits for requests that wait. Requests that wait beyond them keep their tickets."""
        self._max_waiting, self._waiting_quota = waiting, client_quota(waiting, self._share)
        self._contended_wait, self._recall_after = contended_wait, recall_after

    def resize(self, running: int) -> None:
        """Change the maximum number of running requests. Requests that run beyond it continue."""
        self._max_running, self._running_quota = running, client_quota(running, self._share)
        self._start_next()

    @property
    def running(self) -> int:
        """Number of running requests."""
        return len(self._running)

    @property
    def max_running(self) -> int:
        """Maximum number of running requests."""
        return self._max_running

    @property
    def load(self) -> float:
        """Running and queued requests, divided by the slots for them. Above 1, requests wait."""
        return self.ticket_count * self._surplus / self._max_running

    @property
    def waiting(self) -> int:
        """Number of requests that do not run yet, including those that are still being prepared."""
        return self._waiting

    @property
    def ticket_count(self) -> int:
        """Number of requests that have a ticket, running or not."""
        return self.running + self.waiting

    def close(self) -> None:
        """Refuse new requests because the server is draining; requests that have a ticket continue."""
        self._closed = True

    def check_open(self) -> None:
        """Raise ApiError 503 if the server is draining."""
        if self._closed:
            message = "the server is stopping and accepts no new requests; try again later"
            raise ApiError(message, status=503, code="draining")

    def ticket(self, client: str) -> AdmissionTicket:
        """Return a new ticket for ``client``. Use it as a context manager, and await ``wait_until_running``.

        Raises ApiError 429 when the queue, or the client's quota in it, is full, and 503 when the server is draining.
        """
        self.check_open()
        self._check_room(client)
        ticket = AdmissionTicket(self, client)
        self._count_waiting(client, 1)
        return ticket

    def requeue(self, ticket: AdmissionTicket) -> None:
        """Move a running ticket to the end of the queue, for the next request of its owner."""
        if ticket.started_at is None:
            return
        self._stop(ticket)
        ticket.requeue()
        self._count_waiting(ticket.client, 1)
        self._start_next()

    def release(self, ticket: AdmissionTicket) -> None:
        """End a ticket, running or queued. No-op if it was released before."""
        if ticket.released:
            return
        ticket.released = True
        if ticket.started_at is None:
            self._dequeue(ticket)
            return
        self._stop(ticket)
        self._start_next()

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._clock()

    def next_position(self) -> int:
        """Return a new position at the end of the queue."""
        return next(self._positions)

    def enqueue(self, ticket: AdmissionTicket) -> None:
        """Queue ``ticket``; start it at once when fewer than the maximum number of requests run."""
        insort(self._queues.setdefault(ticket.client, []), ticket, key=lambda each: each.position)
        self._start_next()

    def start_eviction_checks(self) -> None:
        """Check for evictions now, and then once a second while requests wait to run. Call it in the event loop."""
        if self._eviction_timer is None:
            self._start_contention()
            self._schedule_eviction_check()
        self.evict_for_waiting()

    def evict_for_waiting(self) -> None:
        """Evict running requests to make room for waiting ones.

        First it evicts requests whose clients keep the engine waiting too long, the slowest first. If there are none
        and a client below its quota has waited for ``recall_after``, it evicts the newest request of the clients above
        their quota.
        """
        staying = [ticket for ticket in self._running if not ticket.evicted]
        wanted = sum(map(len, self._queues.values())) - (self.running - len(staying))
        if wanted <= 0:
            return
        now = self.now()
        slowest = sorted(
            ((ticket.client_lag(now), ticket) for ticket in staying), key=lambda each: each[0], reverse=True
        )
        for lag, ticket in slowest[:wanted]:
            if lag > self._contended_wait:
                ticket.evict(_too_slow(lag, self._contended_wait))
        if len(staying) == self.running and not any(ticket.evicted for ticket in staying):
            self._evict_above_quota(now)

    def _start_contention(self) -> None:
        """Forget the lag of running requests, unless requests waited in the last ``_CONTENTION_GAP_SECONDS``."""
        if self.now() - self._contention_ended_at > _CONTENTION_GAP_SECONDS:
            for ticket in self._running:
                ticket.forget_lag()

    def _evict_above_quota(self, now: float) -> None:
        """Evict the newest request of the clients above their quota if one below its quota has waited long enough."""
        starved = any(
            self._running_by_client.get(client, 0) < self._running_quota
            and queue[0].queued_seconds(now) >= self._recall_after
            for client, queue in self._queues.items()
        )
        above_quota = [each for each in self._running if self._running_by_client[each.client] > self._running_quota]
        if starved and above_quota:
            newest = max(above_quota, key=lambda ticket: ticket.started_at or 0.0)
            newest.evict(self._recall_error(self._running_by_client[newest.client]))

    def _schedule_eviction_check(self) -> None:
        self._eviction_timer = asyncio.get_running_loop().call_later(
            _EVICTION_CHECK_SECONDS, self._repeat_eviction_check
        )

    def _repeat_eviction_check(self) -> None:
        self._eviction_timer = None
        if self._queues:
            self._schedule_eviction_check()
            self.evict_for_waiting()
        else:
            self._contention_ended_at = self.now()

    def _check_room(self, client: str) -> None:
        """Raise ApiError 429 if the queue, or the client's quota in it, is full.

        ``waiting`` includes requests that are still being prepared, so the length of the queue is ``waiting``
        minus the requests that can start at once.
        """
        free = max(0, self._max_running - self.running)
        if self.waiting - free >= self._max_waiting:
            raise self._refusal(
                f"the queue is full: at most {self._max_running} requests run and {self._max_waiting} wait at a time; "
                "try again later"
            )
        if self._waiting_by_client.get(client, 0) - free >= self._waiting_quota:
            raise self._refusal(
                f"this client's share of the queue is full: {self._waiting_quota} of {self._max_waiting} "
                "waiting requests (limits.client_share); wait until one of your other requests has ended"
            )

    def _recall_error(self, running: int) -> ApiError:
        return self._refusal(
            f"this client had {running} of {self._max_running} running requests while another client waited; at most "
            f"{self._running_quota} are kept then (limits.client_share). Try again later",
            code="seat_recalled",
        )

    def _refusal(self, message: str, code: str = "rate_limit_exceeded") -> ApiError:
        return ApiError(message, status=429, code=code, retry_after=self.retry_after)

    @property
    def retry_after(self) -> int:
        """Estimated seconds until all present requests have run, from the durations of recent ones."""
        if not self._durations:
            return RETRY_AFTER
        expected = fmean(self._durations) * (self.waiting + 1) / self._max_running
        return max(1, min(_MAX_RETRY_AFTER, math.ceil(expected)))

    def _start_next(self) -> None:
        while self._queues and self.running < self._max_running:
            client = min(
                self._queues, key=lambda each: (self._running_by_client.get(each, 0), self._queues[each][0].position)
            )
            ticket = self._queues[client][0]
            self._dequeue(ticket)
            self._running.add(ticket)
            _count(self._running_by_client, client, 1)
            ticket.start(self.now())

    def _dequeue(self, ticket: AdmissionTicket) -> None:
        self._count_waiting(ticket.client, -1)
        if ticket.start_requested_at is not None:
            queue = self._queues[ticket.client]
            queue.remove(ticket)
            if not queue:
                del self._queues[ticket.client]

    def _count_waiting(self, client: str, change: int) -> None:
        self._waiting += change
        _count(self._waiting_by_client, client, change)

    def _stop(self, ticket: AdmissionTicket) -> None:
        if ticket.completed and ticket.started_at is not None:
            self._durations.append(self.now() - ticket.started_at)
        self._running.discard(ticket)
        _count(self._running_by_client, ticket.client, -1)


def _count(counts: dict[str, int], client: str, change: int) -> None:
    count = counts.get(client, 0) + change
    if count:
        counts[client] = count
    else:
        del counts[client]


def _too_slow(lag: float, allowed: float) -> ApiError:
    return ApiError(
        f"the client kept the engine waiting for {lag:.1f} s beyond the audio it received; while other requests wait, "
        f"{allowed:g} s are allowed (limits.contended_wait_seconds). Try again, and read audio as fast as it plays or "
        "send text as fast as it is spoken",
        status=408,
        code="client_too_slow",
    )

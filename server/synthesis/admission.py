"""Admission control: limits running requests, queues others fairly per client, refuses or evicts the rest."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from types import TracebackType

from server.errors import RETRY_AFTER, ApiError
from server.http.clients import client_quota

_MEASURED = 32
"""Retry-After is computed from the mean duration of this many completed utterances."""
_LONGEST_RETRY = 120
"""Upper bound of Retry-After, in seconds."""
_CONTENTION_GAP_SECONDS = 10.0
"""Requests that begin to wait after so long without any are a new contention: earlier waits are forgiven."""
_CHECK_SECONDS = 1.0
"""Interval of the eviction check while requests wait, in seconds."""


class Seat:
    """The admission ticket of one request: queued at first, then running.

    A seat measures how long its client blocked the engine (``client_blocks``, ``client_resumes``) and how much audio
    the client received (``gave``). The difference decides which request is evicted while others wait.
    """

    def __init__(self, admission: Admission, client: str) -> None:
        self.client = client
        self.number = admission.next_number()
        """Its position in the queue: lower numbers come first."""
        self.started: float | None = None
        """When it started to run; None while it is queued."""
        self.ready_since: float | None = None
        """When it asked for its turn; None while its request is being prepared."""
        self.spoken = False
        """Whether its utterance is complete: only the durations of complete ones count for Retry-After."""
        self._admission = admission
        self._turn = asyncio.Event()
        self._blocked = self._given = 0.0
        self._blocked_since: float | None = None
        self.eviction: ApiError | None = None
        """The error that it was evicted with."""
        self.holder: asyncio.Task[object] | None = None
        """The task that runs inside ``evictable``."""

    def ready(self) -> None:
        """Ask for a turn. Before that the seat keeps its position in the queue, but others may overtake it."""
        if self.ready_since is None:
            self.ready_since = self._admission.now()
            self._admission.enqueue(self)

    async def turn(self) -> None:
        """Ask for a turn and wait for it."""
        self.ready()
        if self.started is None:
            self._admission.watch()
            await self._turn.wait()

    def start(self, now: float) -> None:
        """Mark the seat as running and wake its ``turn``."""
        self.started = now
        self._turn.set()

    def stop(self) -> None:
        """Reset the seat and move it to the end of the queue, for another request of the same client."""
        self.started = self.ready_since = self.eviction = self._blocked_since = None
        self.spoken = False
        self._blocked = self._given = 0.0
        self.number = self._admission.next_number()
        self._turn.clear()

    def waited(self, now: float) -> float:
        """Return the seconds since it asked for its turn; 0 if it has not."""
        return 0.0 if self.ready_since is None else now - self.ready_since

    def client_blocks(self) -> None:
        """Record that from now on the engine waits for the client to read audio or to send text."""
        if self._blocked_since is None:
            self._blocked_since = self._admission.now()

    def client_resumes(self, excused: float = 0.0) -> None:
        """Record that the engine no longer waits. excused: seconds of the wait that do not count against the client."""
        if self._blocked_since is not None:
            waited = self._admission.now() - self._blocked_since
            self._blocked += max(0.0, waited - excused)
            self._blocked_since = None

    def gave(self, seconds: float) -> None:
        """Record that the client receives audio that takes ``seconds`` to play."""
        self._given += seconds

    def forgive(self) -> None:
        """Forget waits from the time when no other request needed the seat. Called when requests begin to wait."""
        self._blocked = min(self._blocked, self._given)
        if self._blocked_since is not None:
            self._blocked_since = self._admission.now()

    def arrears(self, now: float) -> float:
        """Return the seconds that the client kept the engine waiting, minus the seconds of audio it received."""
        waiting = 0.0 if self._blocked_since is None else now - self._blocked_since
        return self._blocked + waiting - self._given

    @property
    def evicted(self) -> bool:
        """Whether the seat was evicted."""
        return self.eviction is not None

    def evict(self, error: ApiError) -> None:
        """Cancel the body of ``evictable``, which then raises ``error``."""
        self.eviction = error
        if self.holder is not None:
            self.holder.cancel()

    def evictable(self) -> Evictable:
        """Return a context whose body is cancelled when the seat is evicted, and then raises the eviction's error."""
        return Evictable(self)


class Evictable:
    """The context manager of ``Seat.evictable``. Like ``asyncio.timeout``, it cancels its task and uncancels it."""

    __slots__ = ("_cancelling", "_seat", "_task")

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    def __enter__(self) -> None:
        if self._seat.eviction is not None:
            raise self._seat.eviction
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._seat.holder = task

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seat.holder = None
        eviction = self._seat.eviction
        if eviction is not None and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise eviction from None


class Admission:
    """Limits concurrency: at most ``running`` requests run at once, and at most ``waiting`` queue behind them.

    The next free slot goes to the waiting client with the fewest running requests; ties are first come, first served.
    Not thread-safe: for one event loop.

    Args:
        running: maximum number of running requests.
        waiting: maximum number of queued requests.
        share: the fraction of the queue that one client may use, and of the running requests that it may keep while
            others wait.
        contended_wait: seconds that a client may keep the engine waiting, beyond the audio it received, while other
            requests are queued.
        recall_after: seconds that a client below its share waits before a client above its share loses a seat.
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
    ) -> None:
        self.now = clock
        self._most_running, self._most_waiting = running, waiting
        self._running_share, self._waiting_share = client_quota(running, share), client_quota(waiting, share)
        self._contended_wait, self._recall_after = contended_wait, recall_after
        self._running: set[Seat] = set()
        self._running_of: dict[str, int] = {}
        self._waiting = 0
        self._waiting_of: dict[str, int] = {}
        self._ready: dict[str, list[Seat]] = {}
        """The seats that wait for their turn, by client, in queue order."""
        self._numbers = itertools.count()
        self._durations: deque[float] = deque(maxlen=_MEASURED)
        self._closed = False
        self._check: asyncio.TimerHandle | None = None
        self._contended_until = -math.inf

    @property
    def running(self) -> int:
        """Number of running requests."""
        return len(self._running)

    @property
    def most_running(self) -> int:
        """Maximum number of running requests."""
        return self._most_running

    @property
    def waiting(self) -> int:
        """Number of requests that do not run yet, including those that are still being prepared."""
        return self._waiting

    @property
    def taken(self) -> int:
        """Number of requests that hold a seat, running or not."""
        return self.running + self.waiting

    @property
    def closed(self) -> bool:
        """Whether new requests are refused because the server is draining."""
        return self._closed

    def close(self) -> None:
        """Refuse new requests; requests that hold a seat continue."""
        self._closed = True

    def check_open(self) -> None:
        """Raise ApiError 503 if the server is draining."""
        if self._closed:
            raise ApiError("The server is stopping and takes no new requests.", status=503, code="draining")

    @contextmanager
    def seat(self, client: str) -> Iterator[Seat]:
        """Hold one seat for ``client``. The caller then waits for ``Seat.turn``.

        Raises ApiError 429 when the queue, or the client's share of it, is full, and 503 when the server is draining.
        """
        self.check_open()
        self._check_room(client)
        seat = Seat(self, client)
        self._count_waiting(client, 1)
        try:
            yield seat
        finally:
            self._leave(seat)

    def again(self, seat: Seat) -> None:
        """Move a running seat to the end of the queue, for the next request of its holder."""
        if seat.started is None:
            return
        self._stop(seat)
        seat.stop()
        self._count_waiting(seat.client, 1)
        self._call_next()

    def next_number(self) -> int:
        """Return the number of a new position at the end of the queue."""
        return next(self._numbers)

    def enqueue(self, seat: Seat) -> None:
        """Queue ``seat`` for its turn; start it at once when there is a free slot."""
        insort(self._ready.setdefault(seat.client, []), seat, key=lambda each: each.number)
        self._call_next()

    def watch(self) -> None:
        """Evict now, and once a second for as long as requests wait for a turn. Called in the event loop."""
        if self._check is None:
            self._begin_contention()
            self._check_later()
        self.relieve()

    def relieve(self) -> None:
        """Evict running requests to make room for waiting ones.

        First it evicts requests whose clients keep the engine waiting too long, the slowest first. If there are none
        and a client below its share has waited for ``recall_after``, it evicts the newest request of the clients above
        their share.
        """
        staying = [seat for seat in self._running if not seat.evicted]
        wanted = sum(map(len, self._ready.values())) - (self.running - len(staying))
        if wanted <= 0:
            return
        now = self.now()
        slow = sorted(((seat.arrears(now), seat) for seat in staying), key=lambda each: each[0], reverse=True)
        for arrears, seat in slow[:wanted]:
            if arrears > self._contended_wait:
                seat.evict(_too_slow(arrears, self._contended_wait))
        if len(staying) == self.running and not any(seat.evicted for seat in staying):
            self._recall(now)

    def _begin_contention(self) -> None:
        """Start the accounts of running seats anew, unless requests waited until a moment ago."""
        if self.now() - self._contended_until > _CONTENTION_GAP_SECONDS:
            for seat in self._running:
                seat.forgive()

    def _recall(self, now: float) -> None:
        starved = any(
            self._running_of.get(client, 0) < self._running_share and seats[0].waited(now) >= self._recall_after
            for client, seats in self._ready.items()
        )
        beyond = [seat for seat in self._running if self._running_of[seat.client] > self._running_share]
        if starved and beyond:
            newest = max(beyond, key=lambda seat: seat.started or 0.0)
            newest.evict(self._recalled(self._running_of[newest.client]))

    def _check_later(self) -> None:
        self._check = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check_again)

    def _check_again(self) -> None:
        self._check = None
        if self._ready:
            self._check_later()
            self.relieve()
        else:
            self._contended_until = self.now()

    def _check_room(self, client: str) -> None:
        """Raise ApiError 429 if the queue, or the client's share of it, is full.

        ``waiting`` includes requests that are still being prepared, so the queue is ``waiting`` minus the free slots.
        """
        free = self._most_running - self.running
        if self.waiting - free >= self._most_waiting:
            every = self._most_running + self._most_waiting
            raise self._refusal(f"All {every} places of this server are taken; try again later.")
        if self._waiting_of.get(client, 0) - free >= self._waiting_share:
            raise self._refusal(
                f"One client may have {self._waiting_share} of the {self._most_waiting} places in the queue, "
                "and yours are taken; wait for your other requests to end."
            )

    def _recalled(self, held: int) -> ApiError:
        return self._refusal(
            f"You held {held} of the server's {self._most_running} seats, and another client waited for one; "
            f"one client may keep {self._running_share} while others wait. Try again later.",
            code="seat_recalled",
        )

    def _refusal(self, message: str, code: str = "rate_limit_exceeded") -> ApiError:
        return ApiError(message, status=429, code=code, retry_after=self.retry_after)

    @property
    def retry_after(self) -> int:
        """Estimated seconds until all present requests have had their turn, from the durations of recent ones."""
        if not self._durations:
            return RETRY_AFTER
        expected = fmean(self._durations) * (self.waiting + 1) / self._most_running
        return max(1, min(_LONGEST_RETRY, math.ceil(expected)))

    def _call_next(self) -> None:
        while self._ready and self.running < self._most_running:
            client = min(self._ready, key=lambda each: (self._running_of.get(each, 0), self._ready[each][0].number))
            seat = self._ready[client][0]
            self._dequeue(seat)
            self._running.add(seat)
            _count(self._running_of, client, 1)
            seat.start(self.now())

    def _dequeue(self, seat: Seat) -> None:
        self._count_waiting(seat.client, -1)
        if seat.ready_since is not None:
            seats = self._ready[seat.client]
            seats.remove(seat)
            if not seats:
                del self._ready[seat.client]

    def _count_waiting(self, client: str, change: int) -> None:
        self._waiting += change
        _count(self._waiting_of, client, change)

    def _leave(self, seat: Seat) -> None:
        if seat.started is None:
            self._dequeue(seat)
            return
        self._stop(seat)
        self._call_next()

    def _stop(self, seat: Seat) -> None:
        if seat.spoken and seat.started is not None:
            self._durations.append(self.now() - seat.started)
        self._running.discard(seat)
        _count(self._running_of, seat.client, -1)


def _count(counts: dict[str, int], client: str, change: int) -> None:
    count = counts.get(client, 0) + change
    if count:
        counts[client] = count
    else:
        del counts[client]


def _too_slow(arrears: float, allowed: float) -> ApiError:
    return ApiError(
        f"The engine waited {arrears:.1f} s for this client, to take audio or to send text, beyond the audio it was "
        f"given; {allowed:g} s are allowed while other requests wait for a seat. Try again, and take audio as fast as "
        "it plays or send text as fast as it is spoken.",
        status=408,
        code="client_too_slow",
    )

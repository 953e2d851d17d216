"""Who may speak now, who waits in line, and what the others are told."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from server.errors import RETRY_AFTER, ApiError

_MEASURED = 32
"""Utterances whose mean says how long one takes."""
_LONGEST_RETRY = 120
"""Nobody is sent away for longer, in seconds."""


class Seat:
    """A place: in line at first, and from its turn on among those who run."""

    def __init__(self) -> None:
        self.started: float | None = None
        """When its turn came."""
        self.measured = True
        """Whether what it runs says how long one takes; refusals are over in no time."""
        self._turn = asyncio.Event()

    async def turn(self) -> None:
        """Wait until it may run."""
        await self._turn.wait()

    def start(self, now: float) -> None:
        """Its turn has come."""
        self.started = now
        self._turn.set()

    def stop(self) -> None:
        """It stands in line again."""
        self.started, self.measured = None, False
        self._turn.clear()


class Admission:
    """At most ``running`` utterances at once and ``waiting`` behind them, first come, first served."""

    def __init__(self, running: int, waiting: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_running, self._most_waiting = running, waiting
        self._running: set[Seat] = set()
        self._line: deque[Seat] = deque()
        self._durations: deque[float] = deque(maxlen=_MEASURED)
        self._closed = False
        self._clock = clock

    @property
    def running(self) -> int:
        """Requests whose turn has come."""
        return len(self._running)

    @property
    def most_running(self) -> int:
        """Requests that may run at once."""
        return self._most_running

    @property
    def waiting(self) -> int:
        """Requests in line."""
        return len(self._line)

    @property
    def taken(self) -> int:
        """Requests that hold a seat now, running or in line."""
        return self.running + self.waiting

    @property
    def closed(self) -> bool:
        """Whether nobody is let in any more."""
        return self._closed

    def close(self) -> None:
        """Let nobody in any more; whoever has a seat keeps it."""
        self._closed = True

    def check_open(self) -> None:
        """Raises ApiError 503 once the server is told to stop."""
        if self._closed:
            raise ApiError("The server is stopping and takes no new requests.", status=503, code="draining")

    @contextmanager
    def seat(self) -> Iterator[Seat]:
        """Hold one seat, and let whoever is next in line run after it. Raises ApiError 429 when there is none, or 503.

        Its holder waits for ``Seat.turn``.
        """
        self.check_open()
        if self.waiting >= self._most_waiting and self.running >= self._most_running:
            raise self._full()
        seat = Seat()
        self._line.append(seat)
        self._call_next()
        try:
            yield seat
        except BaseException:
            self._leave(seat)
            raise
        self._measure(seat)
        self._leave(seat)

    def again(self, seat: Seat) -> None:
        """What the seat ran is over, and it goes to the end of the line with something else. Nobody is turned away."""
        if seat.started is None:
            return
        self._measure(seat)
        self._running.discard(seat)
        seat.stop()
        self._line.append(seat)
        self._call_next()

    def _full(self) -> ApiError:
        return ApiError(
            f"All {self._most_running + self._most_waiting} places of this server are taken; try again later.",
            status=429,
            code="rate_limit_exceeded",
            retry_after=self.retry_after,
        )

    @property
    def retry_after(self) -> int:
        """Seconds until those who are here now should all have had their turn, from how long the last ones took."""
        if not self._durations:
            return RETRY_AFTER
        expected = fmean(self._durations) * (self.waiting + 1) / self._most_running
        return max(1, min(_LONGEST_RETRY, math.ceil(expected)))

    def _call_next(self) -> None:
        while self._line and self.running < self._most_running:
            seat = self._line.popleft()
            self._running.add(seat)
            seat.start(self._clock())

    def _measure(self, seat: Seat) -> None:
        if seat.started is not None and seat.measured:
            self._durations.append(self._clock() - seat.started)

    def _leave(self, seat: Seat) -> None:
        if seat.started is None:
            self._line.remove(seat)
            return
        self._running.discard(seat)
        self._call_next()

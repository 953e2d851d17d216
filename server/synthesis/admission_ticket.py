"""Admission tickets: each stands for one request, first in the queue and then running."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol, Self

from server.errors import ApiError


class TicketIssuer(Protocol):
    """The part of ``Admission`` that its tickets call."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def next_position(self) -> int:
        """Return a new position at the end of the queue."""

    def enqueue(self, ticket: AdmissionTicket) -> None:
        """Queue a ticket."""

    def start_eviction_checks(self) -> None:
        """Check for evictions now, and then once a second while requests wait to run."""

    def release(self, ticket: AdmissionTicket) -> None:
        """End a ticket, running or queued."""


class AdmissionTicket:
    """The admission ticket of one request: queued at first, then running. As a context manager it is released at exit.

    A ticket measures how long its client kept the engine waiting (``begin_client_wait``, ``end_client_wait``), and how
    much audio the client received (``add_audio``). The difference decides which request is evicted while others wait.
    """

    def __init__(self, issuer: TicketIssuer, client: str) -> None:
        self.client = client
        self.position = issuer.next_position()
        """Its position in the queue: lower ones come first."""
        self.start_requested_at: float | None = None
        """When it was queued to run; None while its request is being prepared."""
        self.started_at: float | None = None
        """When it started to run; None before."""
        self.completed = False
        """Whether its utterance is complete: only the durations of complete ones count for Retry-After."""
        self.released = False
        self.eviction: ApiError | None = None
        """The error that it was evicted with."""
        self.task: asyncio.Task[object] | None = None
        """The task that runs inside ``evictable``."""
        self._issuer = issuer
        self._started = asyncio.Event()
        self._client_wait_seconds = self._audio_seconds = 0.0
        self._client_wait_since: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """End the ticket, so that another request can run. No-op on a second call."""
        self._issuer.release(self)

    def request_start(self) -> None:
        """Queue the ticket to run. Before that it keeps its position in the queue, but others may overtake it."""
        if self.start_requested_at is None:
            self.start_requested_at = self._issuer.now()
            self._issuer.enqueue(self)

    async def wait_until_running(self) -> None:
        """Queue the ticket to run, and wait until it runs."""
        self.request_start()
        if self.started_at is None:
            self._issuer.start_eviction_checks()
            await self._started.wait()

    def start(self, now: float) -> None:
        """Mark the ticket as running and wake its ``wait_until_running``."""
        self.started_at = now
        self._started.set()

    def requeue(self) -> None:
        """Reset the ticket and move it to the end of the queue, for another request of the same client."""
        self.started_at = self.start_requested_at = self.eviction = self._client_wait_since = None
        self.completed = False
        self._client_wait_seconds = self._audio_seconds = 0.0
        self.position = self._issuer.next_position()
        self._started.clear()

    def queued_seconds(self, now: float) -> float:
        """Return the seconds since ``request_start``; 0 before it."""
        return 0.0 if self.start_requested_at is None else now - self.start_requested_at

    def begin_client_wait(self) -> None:
        """Record that from now on the engine waits for the client to read audio or to send text."""
        if self._client_wait_since is None:
            self._client_wait_since = self._issuer.now()

    def end_client_wait(self, excused: float = 0.0) -> None:
        """Record that the engine no longer waits. excused: seconds of the wait that do not count against the client."""
        if self._client_wait_since is not None:
            waited = self._issuer.now() - self._client_wait_since
            self._client_wait_seconds += max(0.0, waited - excused)
            self._client_wait_since = None

    def add_audio(self, seconds: float) -> None:
        """Record that the client receives audio that takes ``seconds`` to play."""
        self._audio_seconds += seconds

    def forget_lag(self) -> None:
        """Forget client waits from a time when no other request was queued. Called when contention starts."""
        self._client_wait_seconds = min(self._client_wait_seconds, self._audio_seconds)
        if self._client_wait_since is not None:
            self._client_wait_since = self._issuer.now()

    def client_lag(self, now: float) -> float:
        """Return the seconds that the client kept the engine waiting, minus the seconds of audio it received."""
        waiting = 0.0 if self._client_wait_since is None else now - self._client_wait_since
        return self._client_wait_seconds + waiting - self._audio_seconds

    @property
    def evicted(self) -> bool:
        """Whether the ticket was evicted."""
        return self.eviction is not None

    def evict(self, error: ApiError) -> None:
        """Cancel the body of ``evictable``, which then raises ``error``."""
        self.eviction = error
        if self.task is not None:
            self.task.cancel()

    def evictable(self) -> Evictable:
        """Return a context whose body is cancelled when the ticket is evicted, and then raises the eviction's error."""
        return Evictable(self)


class Evictable:
    """The context manager of ``AdmissionTicket.evictable``.

    Like ``asyncio.timeout``, it cancels its task and uncancels it.
    """

    __slots__ = ("_cancelling", "_task", "_ticket")

    def __init__(self, ticket: AdmissionTicket) -> None:
        self._ticket = ticket

    def __enter__(self) -> None:
        if self._ticket.eviction is not None:
            raise self._ticket.eviction
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._ticket.task = task

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticket.task = None
        eviction = self._ticket.eviction
        if eviction is not None and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise eviction from None

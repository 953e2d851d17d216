"""What each API key uses: its requests at once, and its seconds of audio today. Refuses what is above its limits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import NamedTuple

from server.errors import ApiError
from server.keys.valid_keys import Keys
from server.telemetry.record import RequestRecord

_DAY_SECONDS = 86_400
_BUSY_RETRY_SECONDS = 2
_UPDATE_SECONDS = 0.1
"""How long a request above the limit of its key waits for an update from another process, in which one may have ended.
A client that sends one request after the other would get a 429 otherwise."""


class Usage(NamedTuple):
    """What an owner of keys uses. running: requests. audio_seconds: of the day with number ``day``."""

    running: int = 0
    audio_seconds: float = 0.0
    day: int = 0

    def audio_of(self, day: int) -> float:
        """Return the seconds of audio of a day."""
        return self.audio_seconds if self.day == day else 0.0


class KeyUsage:
    """Counts the use of each owner of keys. It is an observer of requests. Not thread-safe: for one event loop.

    The counts start at zero when the server starts.

    clock: returns Unix time.

    Attributes:
        on_change: is called with an owner whose keys have limits, when what it uses in this process has changed.
    """

    def __init__(self, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._clock = keys, clock
        self._running: Counter[str] = Counter()
        self._day = 0
        self._audio_seconds: Counter[str] = Counter()
        self._elsewhere: dict[str, Usage] = {}
        self._updated = asyncio.Event()
        self.on_change: Callable[[str], None] = lambda owner: None

    def here(self, owner: str) -> Usage:
        """Return what ``owner`` uses in this process."""
        self._start_day()
        return Usage(self._running[owner], self._audio_seconds[owner], self._day)

    def owners(self) -> set[str]:
        """Return the owners that use something in this process."""
        return {*self._running, *self._audio_seconds}

    def set_elsewhere(self, owner: str, usage: Usage) -> None:
        """Set what ``owner`` uses in the other processes of the server, all together."""
        self._elsewhere[owner] = usage
        self._updated.set()

    def add_audio(self, owner: str, seconds: float) -> None:
        """Count audio of ``owner`` in this process."""
        self._start_day()
        self._audio_seconds[owner] += seconds  # type: ignore[assignment]

    async def request(self, owner: str | None) -> AbstractContextManager[None]:
        """Return a context that counts a request of ``owner`` while it lasts. None: a server without keys.

        If requests of ``owner`` in other processes exceed its limit, wait a moment: one of them may have just ended.
        Entering the context raises ApiError 401 if the keys were revoked, and 429 above the limits.
        """
        key = None if owner is None else self._keys.of_owner(owner)
        if key is not None and key.max_requests is not None and self._elsewhere.get(key.owner, Usage()).running:
            with suppress(TimeoutError):
                async with asyncio.timeout(_UPDATE_SECONDS):
                    while self._total(key.owner).running >= key.max_requests:
                        self._updated.clear()
                        await self._updated.wait()
        return nullcontext() if owner is None else self._counted(owner)

    @contextmanager
    def _counted(self, owner: str) -> Iterator[None]:
        self.check(owner)
        self._running[owner] += 1
        reported = self._changed(owner)
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
            if reported:  # also if the key has lost its limits, or was revoked
                self.on_change(owner)

    def check(self, owner: str) -> None:
        """Raise ApiError 401 or 429 if ``owner`` may not start a request now."""
        key = self._keys.of_owner(owner)
        if key is None:
            message = "The API key was revoked: send a valid key."
            raise ApiError(message, status=401, code="invalid_api_key")
        if key.max_requests is not None and self._total(owner).running >= key.max_requests:
            message = (
                f"this API key may have at most {key.max_requests} requests at once (max_requests in the key file); "
                "wait until one of them has ended"
            )
            raise ApiError(message, status=429, code="rate_limit_exceeded", retry_after=_BUSY_RETRY_SECONDS)
        self.check_quota(owner)

    def check_quota(self, owner: str | None) -> None:
        """Raise ApiError 429 if ``owner`` has used its audio of today."""
        key = None if owner is None else self._keys.of_owner(owner)
        if key is None or key.audio_seconds_per_day is None:
            return
        used = self._total(key.owner).audio_seconds
        if used >= key.audio_seconds_per_day:
            wait = int(_DAY_SECONDS - self._clock() % _DAY_SECONDS) + 1
            message = (
                f"this API key may request {key.audio_seconds_per_day} s of audio per day (audio_seconds_per_day in "
                f"the key file) and has received {used:.0f} s; the next day starts at midnight UTC, in {wait} s"
            )
            raise ApiError(message, status=429, code="insufficient_quota", retry_after=wait)

    def ended(self, record: RequestRecord) -> None:
        """Count the audio of a finished request. A request of several utterances is counted by its utterances."""
        if record.owner is not None and not record.is_session and not record.parts:
            self.add_audio(record.owner, record.audio_seconds)
            self._changed(record.owner)

    def _total(self, owner: str) -> Usage:
        """Return what ``owner`` uses in all processes."""
        here, elsewhere = self.here(owner), self._elsewhere.get(owner, Usage())
        audio = here.audio_seconds + elsewhere.audio_of(here.day)
        return Usage(here.running + elsewhere.running, audio, here.day)

    def _changed(self, owner: str) -> bool:
        """Report what ``owner`` uses, if its key has limits. Return whether it has."""
        key = self._keys.of_owner(owner)
        limited = key is not None and (key.max_requests is not None or key.audio_seconds_per_day is not None)
        if limited:
            self.on_change(owner)
        return limited

    def _start_day(self) -> None:
        """Forget the audio of earlier days."""
        if (day := int(self._clock() // _DAY_SECONDS)) != self._day:
            self._day = day
            self._audio_seconds.clear()

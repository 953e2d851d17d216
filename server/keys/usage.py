"""What each API key uses: its requests at once, and its seconds of audio today. Refuses what is above its limits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from server.errors import ApiError
from server.keys.valid_keys import Keys
from server.telemetry.record import RequestRecord

_DAY_SECONDS = 86_400
_BUSY_RETRY_SECONDS = 2


class KeyUsage:
    """Counts the use of each owner of keys. It is an observer of requests. Not thread-safe: for one event loop.

    The counts are of this process: they start at zero when the server starts.

    clock: returns Unix time.
    """

    def __init__(self, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._clock = keys, clock
        self._running: Counter[str] = Counter()
        self._day = 0
        self._audio_seconds: Counter[str] = Counter()

    @contextmanager
    def request(self, owner: str | None) -> Iterator[None]:
        """Count a request of ``owner`` while the context lasts. None: a server without keys.

        Raises ApiError 401 if its keys were revoked after it connected, and 429 above its limits.
        """
        if owner is None:
            yield
            return
        self.check(owner)
        self._running[owner] += 1
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]

    def check(self, owner: str) -> None:
        """Raise ApiError 401 or 429 if ``owner`` may not start a request now."""
        key = self._keys.of_owner(owner)
        if key is None:
            message = "The API key was revoked: send a valid key."
            raise ApiError(message, status=401, code="invalid_api_key")
        if key.max_requests is not None and self._running[owner] >= key.max_requests:
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
        self._start_day()
        used = self._audio_seconds[key.owner]
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
            self._start_day()
            self._audio_seconds[record.owner] += record.audio_seconds  # type: ignore[assignment]

    def _start_day(self) -> None:
        """Forget the audio of earlier days."""
        if (day := int(self._clock() // _DAY_SECONDS)) != self._day:
            self._day = day
            self._audio_seconds.clear()

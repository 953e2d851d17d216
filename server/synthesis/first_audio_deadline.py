"""The deadline for the first audio of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.errors import ApiError


class FirstAudioDeadline:
    """``limits.first_sound_seconds`` from now. Create it in the event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at: float | None = asyncio.get_running_loop().time() + seconds
        self._timeout: asyncio.Timeout | None = None

    def met(self) -> None:
        """Disable the deadline: there is audio, even if it is not sent yet."""
        self._at = None
        if self._timeout is not None:
            self._timeout.reschedule(None)

    @asynccontextmanager
    async def enforced(self) -> AsyncIterator[None]:
        """Cancel the body at the deadline and raise ApiError 504. May be entered several times, one after another."""
        try:
            async with asyncio.timeout_at(self._at) as timeout:
                self._timeout = timeout
                yield
        except TimeoutError:
            if not timeout.expired():
                raise
            message = f"no audio was ready within {self._seconds:g} s (limits.first_sound_seconds); try again later"
            raise ApiError(message, status=504, code="deadline_exceeded") from None
        finally:
            self._timeout = None

"""The deadline for the first audio of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.errors import ApiError


@asynccontextmanager
async def first_audio_deadline(seconds: float) -> AsyncIterator[None]:
    """Limit the body to ``seconds``. Raises ApiError 504 after that."""
    try:
        async with asyncio.timeout(seconds) as deadline:
            yield
    except TimeoutError:
        if not deadline.expired():
            raise
        message = f"There was nothing to hear within {seconds:g} s."
        raise ApiError(message, status=504, code="deadline_exceeded") from None

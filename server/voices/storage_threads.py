"""Threads for calls of the voice storage, so that a storage that does not answer blocks nothing but stored voices."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from server.errors import ApiError
from server.voices.stored_voice import StoredVoice, VoiceHeader
from server.voices.voice_storage import VoiceStorage

THREADS = 8
_TIMEOUT_SECONDS = 30.0
_STUCK_SECONDS = 2.0
"""When every thread has been in its call for this long, the storage is stuck, and new calls fail at once."""

T = TypeVar("T")


class StorageThreads:
    """Runs calls of the voice storage in a few threads of its own. Use it in one event loop.

    Args:
        timeout: seconds until a call fails, the wait for a thread included. Its thread is free when the call returns.
        clock: returns monotonic seconds.
    """

    def __init__(self, timeout: float = _TIMEOUT_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._executor = ThreadPoolExecutor(THREADS, "voices")
        self._timeout, self._clock = timeout, clock
        self._lock = threading.Lock()
        self._started: dict[object, float] = {}
        """When the calls in progress began."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of ``call``. Raises ApiError 503 if it takes too long, or if all threads are stuck."""
        if self._is_stuck():
            raise _no_answer("at the moment")
        try:
            async with asyncio.timeout(self._timeout) as timeout:
                return await asyncio.wrap_future(self._executor.submit(self._timed, call))
        except TimeoutError:
            if not timeout.expired():
                raise
            raise _no_answer(f"within {self._timeout:g} s") from None

    def close(self) -> None:
        """Drop the calls that have not begun. Does not wait for those in progress."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _timed(self, call: Callable[[], T]) -> T:
        key = object()
        with self._lock:
            self._started[key] = self._clock()
        try:
            return call()
        finally:
            with self._lock:
                del self._started[key]

    def _is_stuck(self) -> bool:
        with self._lock:
            started = [*self._started.values()]
        return len(started) >= THREADS and self._clock() - max(started) >= _STUCK_SECONDS


class ThreadedVoices:
    """A VoiceStorage whose methods are coroutines that run in ``StorageThreads``.

    Each also raises ApiError 503 ``voice_storage_failed`` when the storage does not answer.
    """

    def __init__(self, storage: VoiceStorage, threads: StorageThreads) -> None:
        self._storage, self._threads = storage, threads

    async def names(self) -> list[str]:
        """See ``VoiceStorage.names``."""
        return await self._threads.run(self._storage.names)

    async def headers(self) -> list[VoiceHeader]:
        """See ``VoiceStorage.headers``."""
        return await self._threads.run(self._storage.headers)

    async def get(self, name: str) -> StoredVoice | None:
        """See ``VoiceStorage.get``."""
        return await self._threads.run(partial(self._storage.get, name))

    async def add(self, voice: StoredVoice) -> None:
        """See ``VoiceStorage.add``."""
        await self._threads.run(partial(self._storage.add, voice))

    async def check_room(self, name: str, *, shared: bool = True) -> None:
        """See ``VoiceStorage.check_room``."""
        await self._threads.run(partial(self._storage.check_room, name, shared=shared))

    async def remove(self, name: str) -> bool:
        """See ``VoiceStorage.remove``."""
        return await self._threads.run(partial(self._storage.remove, name))


def _no_answer(when: str) -> ApiError:
    message = f"the storage of voices does not answer {when}; built-in voices work, or try again later"
    return ApiError(message, status=503, code="voice_storage_failed")

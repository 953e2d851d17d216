"""Names to addresses."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, the one to try first in front. Raises OSError or UnicodeError."""

_LOOKUPS = 8
"""At once. A lookup cannot be broken off, so they have threads of their own, which nothing else waits for."""


class SystemResolver:
    """Asks the system, off the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, "resolver")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of ``host``. Raises OSError or UnicodeError where there are none."""
        look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def close(self) -> None:
        """Nothing is looked up any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

"""Names to addresses."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, the one to try first in front. Raises OSError or UnicodeError."""

_LOOKUPS = 8
"""At once. A lookup cannot be broken off, so each has a thread that nothing waits for, not even the process's end."""

_Answer = list[str] | Exception


class SystemResolver:
    """Asks the system, off the event loop."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of ``host``. Raises OSError or UnicodeError where there are none."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[str]] = loop.create_future()

        def tell(answer: _Answer) -> None:
            self._places.release()
            if found.done():
                return
            if isinstance(answer, list):
                found.set_result(answer)
            else:
                found.set_exception(answer)

        def look_up() -> None:
            answer = _addresses(host, port)
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(tell, answer)

        await self._places.acquire()
        threading.Thread(target=look_up, name="resolver", daemon=True).start()
        return await found


def _addresses(host: str, port: int) -> _Answer:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except Exception as error:
        return error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))

"""Hands received audio to its requests: first chunks at once, later ones a few at a time. Imports no torch.

With many clients, a hundred chunks may arrive together. Each occupies the event loop for about 0.1 ms. A new request or
a first chunk that arrives behind them should not wait for all of them. Later chunks can wait: their clients have audio.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from engine.transfer import Kind, Record

_FIRST_CHUNKS = 3
"""Chunks of a stream that are never delayed. With the third one a client has about 0.3 s of audio."""
_AT_A_TIME = 8
_MAX_ITERATIONS = 16
"""At least ``_AT_A_TIME`` waiting records are delivered per iteration of the event loop, and at least one
``_MAX_ITERATIONS``-th of them, so that the queue shortens however many arrive."""


class Delivery:
    """Calls ``deliver`` with every record, those of one stream in order. Use it in the event loop."""

    def __init__(self, deliver: Callable[[Record], None]) -> None:
        self._deliver = deliver
        self._waiting: deque[Record] = deque()

    def add(self, records: Iterable[Record]) -> None:
        """Deliver the first chunks of streams now, and the other records in the next iterations of the event loop."""
        for record in records:
            if record.kind is Kind.DATA and record.sequence <= _FIRST_CHUNKS:
                self._deliver(record)
                continue
            if not self._waiting:
                asyncio.get_running_loop().call_soon(self._deliver_some)
            self._waiting.append(record)

    def flush(self) -> None:
        """Deliver all waiting records now."""
        while self._waiting:
            self._deliver(self._waiting.popleft())

    def _deliver_some(self) -> None:
        count = max(_AT_A_TIME, len(self._waiting) // _MAX_ITERATIONS)
        for _ in range(min(count, len(self._waiting))):
            self._deliver(self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._deliver_some)

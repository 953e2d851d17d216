"""Hands received audio to its requests: first and last chunks at once, others a few at a time. Imports no torch.

With many clients, a hundred chunks may arrive together. Each occupies the event loop for about 0.1 ms. A new request or
a first chunk that arrives behind them should not wait for all of them, nor should the end of an utterance, after which
another one can begin. Other chunks can wait: their clients have audio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice

from engine.transfer import Kind, Record

_FIRST_CHUNKS = 3
"""Chunks of a stream that are never delayed. With the third one a client has about 0.3 s of audio."""
_AT_A_TIME = 8
_MAX_ITERATIONS = 16
"""In each iteration of the event loop at least ``_AT_A_TIME`` waiting streams get their chunks, and at least one
``_MAX_ITERATIONS``-th of them, so that none waits long however many there are."""


class Delivery:
    """Calls ``deliver`` with every record, those of one stream in order. Use it in the event loop."""

    def __init__(self, deliver: Callable[[Record], None]) -> None:
        self._deliver = deliver
        self._waiting: dict[int, list[Record]] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Deliver first chunks and ends now, and other chunks in the next iterations of the event loop."""
        for record in records:
            if record.kind is not Kind.DATA:
                self._deliver_waiting(record.stream)
            elif record.sequence > _FIRST_CHUNKS:
                if not self._waiting:
                    asyncio.get_running_loop().call_soon(self._deliver_some)
                self._waiting.setdefault(record.stream, []).append(record)
                continue
            self._deliver(record)

    def flush(self) -> None:
        """Deliver all waiting records now."""
        for stream in list(self._waiting):
            self._deliver_waiting(stream)

    def _deliver_some(self) -> None:
        count = max(_AT_A_TIME, len(self._waiting) // _MAX_ITERATIONS)
        for stream in list(islice(self._waiting, count)):
            self._deliver_waiting(stream)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._deliver_some)

    def _deliver_waiting(self, stream: int) -> None:
        for record in self._waiting.pop(stream, ()):
            self._deliver(record)

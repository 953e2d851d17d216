"""Hands received audio to its requests: first and last chunks at once, others a few at a time. Imports no torch.

With many clients, a hundred chunks may arrive together. Each occupies the event loop for about 0.1 ms. A new request or
a first chunk that arrives behind them should not wait for all of them, nor should the end of an utterance, after which
another one can begin. Other chunks can wait: their clients have audio.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from engine.transfer import Kind, Record

_FIRST_CHUNKS = 3
"""Chunks of a stream that are never delayed. With the third one a client has about 0.3 s of audio."""
_AT_A_TIME = 8
"""Number of waiting streams that get their chunks in one iteration of the event loop."""
_MAX_WAIT = 0.05
"""Seconds after which a chunk no longer waits: a busy event loop must not make clients run out of audio."""


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
        overdue = time.monotonic() - _MAX_WAIT
        for number, (stream, records) in enumerate(list(self._waiting.items())):
            if number >= _AT_A_TIME and records[0].time > overdue:
                break
            self._deliver_waiting(stream)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._deliver_some)

    def _deliver_waiting(self, stream: int) -> None:
        for record in self._waiting.pop(stream, ()):
            self._deliver(record)

"""Pauses in long loops of background threads, so that they do not delay the event loop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PAUSE_SECONDS = 0.001


def paced(items: Iterable[T], step: int) -> Iterator[T]:
    """Yield ``items``, and sleep for 1 ms after every ``step`` of them. Blocks: call it off the event loop.

    Without the sleep the thread keeps the GIL for 5 ms each time the event loop requests it. The system calls in
    between do not hand over the GIL.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % step == 0:
            time.sleep(_PAUSE_SECONDS)

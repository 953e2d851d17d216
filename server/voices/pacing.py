"""Long work of a background thread, in steps short enough for the event loop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PAUSE_SECONDS = 0.001


def paced(items: Iterable[T], step: int) -> Iterator[T]:
    """Yield ``items``, and pause after every ``step`` of them.

    A thread that does not pause keeps the interpreter's lock for 5 ms whenever the event loop wants it: system calls
    between do not hand it over. Call it off the event loop.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % step == 0:
            time.sleep(_PAUSE_SECONDS)

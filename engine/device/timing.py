"""Times calls on a CPU that other processes use, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


def fastest_call(call: Callable[[], object], seconds: float, threads: int) -> float:
    """Return the shortest time of a call in seconds. Calls it once to warm up, then for at least ``seconds``.

    threads: of torch. With one, the time in which other processes had its core does not count.
    """
    clock = cpu_clock(threads)
    with torch_threads(threads):
        call()
        shortest, total = float("inf"), 0.0
        while total < seconds:
            began = clock()
            call()
            elapsed = clock() - began
            shortest, total = min(shortest, elapsed), total + elapsed
    return shortest


def cpu_clock(threads: int) -> Callable[[], float]:
    """Return the clock for work of ``threads`` threads. That of one does not count when others have its core."""
    return time.thread_time if threads == 1 else time.perf_counter


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Make torch use ``threads`` threads for this thread's operations."""
    previous = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(previous)

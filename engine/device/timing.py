"""Times calls on a CPU that other processes use, too."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

_CPU_TIMES = Path("/proc/stat")
_BUSY = 0.25
"""Cores in use by other processes above which a measurement is disturbed."""
_TICK_S = 0.02
"""Resolution of the system's CPU times."""


class Timing(NamedTuple):
    """A measured time, and whether other processes disturbed the measurement."""

    time: float
    disturbed: bool


def fastest_call(call: Callable[[], object], seconds: float, threads: int) -> Timing:
    """Return the shortest time of a call in seconds. Calls it once to warm up, then for at least ``seconds``.

    threads: of torch. With one thread it is CPU time, so preemption does not count.
    """
    clock = cpu_clock(threads)
    with torch_threads(threads):
        call()
        disturbed = watch_other_processes()
        shortest, total = float("inf"), 0.0
        while total < seconds:
            began = clock()
            call()
            elapsed = clock() - began
            shortest, total = min(shortest, elapsed), total + elapsed
        return Timing(shortest, disturbed())


def watch_other_processes() -> Callable[[], bool]:
    """Return a function that returns whether other processes have disturbed this one since this call.

    They have if they used more than a quarter of a core, of the CPUs that this process may use. CPU time that the
    hypervisor gave to other machines counts, too. Without /proc/stat nothing is disturbed.
    """
    began, before = time.monotonic(), _cpu_seconds_of_other_processes()

    def disturbed() -> bool:
        used = _cpu_seconds_of_other_processes() - before
        return used > _BUSY * (time.monotonic() - began) + _TICK_S

    return disturbed


def _cpu_seconds_of_other_processes() -> float:
    """Return the CPU time since boot of all other processes on this process's CPUs, or 0 if it is unknown."""
    try:
        lines = re.findall(r"^cpu(\d+) (.+)$", _CPU_TIMES.read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    # A container sees the CPUs of its host.
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {int(cpu) for cpu, _ in lines}
    ticks = 0
    for cpu, counts in lines:
        if int(cpu) in usable:
            user, nice, system, _idle, _iowait, *interrupts_and_steal = map(int, counts.split()[:8])
            ticks += user + nice + system + sum(interrupts_and_steal)
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()


def cpu_clock(threads: int) -> Callable[[], float]:
    """Return the clock for work of some threads. With one thread it is CPU time, so preemption does not count."""
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

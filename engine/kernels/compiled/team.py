"""Threads that run one compiled function together, and the barrier at which they wait for each other."""

from __future__ import annotations

import platform
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, typeof, types
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

from engine.kernels.compiled import CACHE

BARRIER_WORDS = 16
"""Length of the int64 array of a barrier: the number of arrived threads, and in another cache line the round and the
number of sleeping threads."""
_ROUND, _SLEEPING = 8, 9
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine()) if sys.platform == "linux" else None
"""Number of the system call futex; None where it is not used."""
_SPINS = 2_000 if _FUTEX is None else 100_000
"""How often a thread checks the barrier before it sleeps: 100,000 checks take about 0.1 ms."""
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129
"""Its operations, for threads of one process (linux/futex.h)."""
_ALL = 0x7FFFFFFF
_syscall = types.ExternalFunction("syscall", types.int64(*[types.int64] * 5))
_yield = types.ExternalFunction("sched_yield", types.int32())


class Team:
    """Runs a compiled function in several threads at once: the calling thread and ``size`` - 1 others.

    The function must be compiled by numba and release the GIL, and its threads must meet at a barrier after the work.
    So ``run`` returns when all are done. Not thread-safe: one thread at a time calls ``run``. The threads end with the
    team.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = np.zeros(BARRIER_WORDS, np.int64)
        self._calls: list[Callable[[int], None]] = []
        self._compiled: set[Dispatcher] = set()
        self._wake = [threading.Semaphore(0) for _ in range(size - 1)]
        for number, wake in enumerate(self._wake, start=1):
            arguments = (self._calls, number, wake)
            threading.Thread(target=_serve, args=arguments, name=f"team-{number}", daemon=True).start()
        weakref.finalize(self, _end, self._calls, self._wake)

    def run(self, function: Dispatcher, *args: Any, threads: int | None = None) -> None:
        """Call ``function(number of the thread, threads, barrier, *args)`` in ``threads`` threads, or in all."""
        count = threads or self.size
        if count > self.size:
            raise ValueError(f"threads must be at most the team's {self.size}, got {count}")
        if function not in self._compiled:
            # Compilation may fail, for example if the disk is full. Here it does so before others wait at the barrier.
            function.compile(tuple(map(typeof, (0, count, self._barrier, *args))))
            self._compiled.add(function)
        self._calls[:] = [lambda number: function(number, count, self._barrier, *args)]
        for wake in self._wake[: count - 1]:
            wake.release()
        self._calls[0](0)
        self._calls.clear()


def _serve(calls: list[Callable[[int], None]], number: int, wake: threading.Semaphore) -> None:
    """Run calls as thread ``number`` of a team. An empty list ends the thread."""
    while wake.acquire() and calls:
        calls[0](number)


def _end(calls: list[Callable[[int], None]], wake: list[threading.Semaphore]) -> None:
    calls.clear()
    for each in wake:
        each.release()


@intrinsic
def _add(context, address, value):
    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.intp, types.int64), generate


@intrinsic
def _load(context, address):
    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(types.intp), generate


@intrinsic
def _store(context, address, value):
    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store_atomic(args[1], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(types.intp, types.int64), generate


if _FUTEX is None:

    @njit(nogil=True, cache=CACHE)
    def _sleep(words, current):
        """Let another thread of the system use this core."""
        _yield()

    @njit(nogil=True, cache=CACHE)
    def _wake_sleeping(words):
        """Do nothing, because no thread sleeps."""

else:

    @njit(nogil=True, cache=CACHE)
    def _sleep(words, current):
        """Sleep until ``_wake_sleeping``, if the round is still ``current``. It may also return spuriously."""
        start = words.ctypes.data
        _add(start + 8 * _SLEEPING, 1)
        _syscall(_FUTEX, start + 8 * _ROUND, _FUTEX_WAIT, current & 0xFFFFFFFF, 0)
        _add(start + 8 * _SLEEPING, -1)

    @njit(nogil=True, cache=CACHE)
    def _wake_sleeping(words):
        """Wake the threads that sleep. Call it after the round has changed."""
        start = words.ctypes.data
        if _add(start + 8 * _SLEEPING, 0):  # a plain load could be ordered before the change of the round
            _syscall(_FUTEX, start + 8 * _ROUND, _FUTEX_WAKE, _ALL, 0)


@njit(nogil=True, cache=CACHE)
def wait(barrier, size):
    """Wait until all ``size`` threads have called this.

    A thread that waits long sleeps. If it only yielded its core, then on a busy machine it would lose a time slice of
    some milliseconds at many of the hundreds of barriers of a frame.
    """
    if size == 1:
        return
    arrived, turn = barrier.ctypes.data, barrier.ctypes.data + 8 * _ROUND
    current = _load(turn)
    if _add(arrived, 1) == size - 1:
        _store(arrived, 0)
        _add(turn, 1)
        _wake_sleeping(barrier)
        return
    spins = 0
    while _load(turn) == current:
        spins += 1
        if spins > _SPINS:
            _sleep(barrier, current)

"""Process setup and exit: logging, signals, the parent's death, the garbage collector."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
from typing import NoReturn

from engine.system.logs import LogFormat, set_up_logging

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_M_MMAP_THRESHOLD = -3
_LOADING_THRESHOLD = 4 << 20
_RUNNING_THRESHOLD = 32 << 20
"""Size in bytes from which on a block is memory of its own. The second one is the allocator's own maximum."""


def prepare_process(log_format: LogFormat, parent: int) -> None:
    """Set up logging, ignore SIGINT and SIGTERM, and end with the parent.

    A service manager sends SIGTERM to every process of a service. Only the parent handles it, so that utterances in
    flight can drain.

    Args:
        log_format: plain text or JSON lines, on standard error.
        parent: the parent's process id; see ``die_with_parent``.
    """
    set_up_logging(log_format)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent(parent)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends. Exit at once if the parent has already ended.

    Works in every state of this process: stopped, stuck in native code, holding the GIL. Linux only. On other systems
    this is a no-op, and a process detects the end of its parent by the end of file on their connection.

    The kernel sends the signal when the *thread* that started this process ends. Start such a process in a thread that
    lives as long as its own process, in practice the main thread. ``EngineClient`` starts and restarts the engine in
    the event loop. The engine starts Code2Wav in its main thread. Do not use ``asyncio.to_thread`` or thread pools.

    Args:
        parent: the parent's process id, from ``os.getpid()`` in the parent before it started this process. It shows
            whether the parent ended before this call.
    """
    if sys.platform != "linux":
        return
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def exit_immediately(status: int = 0) -> NoReturn:
    """Exit without Python's finalization, which takes up to a second of CPU time with torch loaded.

    The engine client kills a worker that takes longer than that to exit. Destructors and atexit functions do not run:
    with threads of several native libraries they can abort the process ("terminate called without an active
    exception").
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent has ended (a "child subreaper"). Linux only."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), *3 * [ctypes.c_ulong(0)])


def freeze_gc() -> None:
    """Exclude all existing objects from garbage collection, permanently.

    Otherwise, each time the number of objects has grown by a quarter, a full collection would traverse all of them and
    pause every thread.
    """
    gc.collect()
    gc.freeze()


def return_freed_memory() -> None:
    """Return large blocks to the system as soon as they are freed. For the time of loading; no-op without glibc.

    The allocator keeps freed blocks of up to 32 MiB otherwise: half a gigabyte while a 0.6B checkpoint is converted.
    """
    _set_mmap_threshold(_LOADING_THRESHOLD)


def release_free_memory() -> None:
    """Return all freed memory to the system, and keep freed blocks from now on, for speed. No-op without glibc."""
    _set_mmap_threshold(_RUNNING_THRESHOLD)
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _set_mmap_threshold(size: int) -> None:
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, size)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if os.name == "posix" else None

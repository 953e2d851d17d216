"""Limits that a process sets on itself before it decodes a recording that may be hostile.

macOS accepts some of these limits without enforcing them; the CPU and wall-clock bounds hold there, too.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from server.references.bounds import RecordingLimits

_MEMORY_BYTES = 256 * 1024 * 1024
_CPU_SECONDS = 5
_WALL_SECONDS = 30
_SECONDS_OF_AUDIO = 30.0
_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Budget:
    """What decoding one recording may take.

    For recordings of up to 30 s (10 MB, 192 kHz, eight channels) the most demanding format needs 72 MiB and 0.7 s of
    CPU time; a configuration that allows longer ones gets proportionally more.

    memory_bytes: address space that decoding may add to that of the worker.
    wall_seconds: more than cpu_seconds, because decoding has a low priority and may wait for the CPU.
    """

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: int

    @classmethod
    def of(cls, limits: RecordingLimits) -> Self:
        """The budget for the longest recording that ``limits`` allow."""
        scale = max(1.0, limits.reference_max_seconds / _SECONDS_OF_AUDIO)
        return cls(int(scale * _MEMORY_BYTES), math.ceil(scale * _CPU_SECONDS), math.ceil(scale * _WALL_SECONDS))


def yield_to_other_processes() -> None:
    """Lower the priority of this process, and make it the first to be killed when the machine runs out of memory."""
    os.nice(_NICENESS)
    if sys.platform == "linux":
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def address_space_bytes() -> int | None:
    """The virtual size of this process; None where the system has no /proc."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[0]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def restrict(budget: Budget, address_space: int | None) -> None:
    """Limit memory, CPU time, wall-clock time, files and processes of this process, for good.

    Args:
        budget: what this process may take.
        address_space: its present virtual size in bytes; None where that is unknown, then memory is not limited.
    """
    signal.alarm(budget.wall_seconds)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, 0)
    with suppress(ValueError, OSError):
        _limit(resource.RLIMIT_NPROC, 0)
    _limit(resource.RLIMIT_CPU, budget.cpu_seconds, grace=1)  # at the hard limit it is SIGKILL, not SIGXCPU
    if address_space is not None:
        _limit(resource.RLIMIT_AS, address_space + budget.memory_bytes)


def _limit(kind: int, value: int, grace: int = 0) -> None:
    """Set a soft limit, and a hard one ``grace`` above it; where a lower hard limit is in force already, use that."""
    _, present = resource.getrlimit(kind)
    hard = value + grace if present == resource.RLIM_INFINITY else min(value + grace, present)
    resource.setrlimit(kind, (max(0, hard - grace), hard))

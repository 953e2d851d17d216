"""Resource limits that a process sets on itself before it decodes an untrusted recording.

macOS accepts some of these limits without enforcing them. The CPU and wall-clock limits hold there, too.
"""

from __future__ import annotations

import math
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from server.references.validation import RecordingLimits

_MEMORY_BYTES = 256 * 1024 * 1024
_CPU_SECONDS = 5
_WALL_SECONDS = 30
_SECONDS_OF_AUDIO = 30.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Resource limits for decoding one recording.

    For recordings of up to 30 s (10 MB, 192 kHz, eight channels) the most demanding format needs 72 MiB and 0.7 s of
    CPU time. The limits scale with the configured maximum duration above 30 s.

    Attributes:
        memory_bytes: address space that decoding may add to that of the worker.
        cpu_seconds: maximum CPU time.
        wall_seconds: maximum time. It is longer, because decoding has a low priority and may wait for the CPU.
    """

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: int

    @classmethod
    def of(cls, limits: RecordingLimits) -> Self:
        """Return the budget for the longest recording that ``limits`` allow."""
        scale = max(1.0, limits.reference_max_seconds / _SECONDS_OF_AUDIO)
        return cls(int(scale * _MEMORY_BYTES), math.ceil(scale * _CPU_SECONDS), math.ceil(scale * _WALL_SECONDS))


def prefer_for_oom_kill() -> None:
    """Make this process the OOM killer's first choice (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def address_space_bytes() -> int | None:
    """Return the virtual memory size of this process in bytes, or None on systems without /proc."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[0]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def restrict(budget: Budget, address_space: int | None) -> None:
    """Limit memory, CPU time, wall-clock time, files and processes of this process. This cannot be undone.

    Args:
        budget: the limits.
        address_space: the current virtual size of the process in bytes; None leaves memory unlimited.
    """
    signal.alarm(budget.wall_seconds)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, 0)
    with suppress(ValueError, OSError):
        _limit(resource.RLIMIT_NPROC, 0)
    _limit(resource.RLIMIT_CPU, budget.cpu_seconds, grace=1)  # SIGXCPU at the soft limit, SIGKILL at the hard limit
    if address_space is not None:
        _limit(resource.RLIMIT_AS, address_space + budget.memory_bytes)


def _limit(kind: int, value: int, grace: int = 0) -> None:
    """Set a soft limit, and a hard limit ``grace`` above it. An existing lower hard limit takes precedence."""
    _, current = resource.getrlimit(kind)
    hard = value + grace if current == resource.RLIM_INFINITY else min(value + grace, current)
    resource.setrlimit(kind, (max(0, hard - grace), hard))

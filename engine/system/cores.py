"""The number of CPU cores that this process may use. Imports no torch, because the HTTP process uses it too."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available_cores() -> int:
    """Return the number of cores of this process's CPU affinity, or of its cgroup's CPU quota if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CGROUP_QUOTA.read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def stage_threads(configured: int | None) -> int:
    """Return the torch threads of each stage side by side: ``engine.threads`` if configured, else half of the cores."""
    return configured or max(1, available_cores() // 2)

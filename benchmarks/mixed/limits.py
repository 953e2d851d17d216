"""Limits of a mixed load: growth of memory, files and threads, and waiting times on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_WAIT_S = 2.0
"""Maximum wait on a GPU, for the first chunk and between two chunks. On a CPU there is no limit."""
_GROWTH = 1.05
_GROWTH_MIB = 100.0


def exceeded_limits(usage: Sequence[Mapping[str, Any]], waits: Mapping[str, float], *, limit_waits: bool) -> list[str]:
    """Return one sentence for each limit that was exceeded.

    From the first fifth of the load to its end, memory may grow by 5 % plus 100 MiB. Files and threads may not grow.

    usage: resources of the engine before the load, after its first fifth and at its end: MiB, files, threads, MiB of
        each GPU.
    waits: waiting times in milliseconds. limit_waits: whether they are limited.
    """
    _, fifth, end = usage
    memory = {"the engine": (fifth["mib"], end["mib"])}
    memory |= {f"GPU {gpu}": (mib, end["gpu_mib"].get(gpu, 0.0)) for gpu, mib in fifth["gpu_mib"].items()}
    messages = [
        f"{owner} uses {late:,.0f} MiB at the end, {early:,.0f} MiB after the first fifth"
        for owner, (early, late) in memory.items()
        if late > _GROWTH * early + _GROWTH_MIB
    ]
    messages += [
        f"{end[name]} {name} at the end, {fifth[name]} after the first fifth"
        for name in ("files", "threads")
        if end[name] > fifth[name]
    ]
    for name, wait in (("first chunk", "first_worst_ms"), ("next chunk", "gap_worst_ms")):
        if limit_waits and waits.get(wait, 0.0) > 1000 * MAX_WAIT_S:
            messages.append(f"longest wait for the {name} is {waits[wait] / 1000:.1f} s, the limit is {MAX_WAIT_S:g} s")
    return messages

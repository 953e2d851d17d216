"""Limits of a mixed load: growth of memory, files and threads, and waiting times on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_WAIT_S = 2.0
"""Maximum wait on a GPU, for the first chunk and between two chunks. On a CPU there is no limit."""
_GROWTH = 1.05
_MORE_MIB = 100.0


def broken(held: Sequence[Mapping[str, Any]], waits: Mapping[str, float], *, bounded: bool) -> list[str]:
    """Return one sentence for each limit that was exceeded.

    From the first fifth of the load to its end, memory may grow by 5 % plus 100 MiB. Files and threads may not grow.

    held: resources of the engine before the load, after its first fifth and at its end: MiB, files, threads, MiB of
        each GPU.
    waits: waiting times in milliseconds. bounded: whether they are limited.
    """
    _, fifth, end = held
    memory = {"the engine": (fifth["mib"], end["mib"])}
    memory |= {f"GPU {gpu}": (mib, end["gpu_mib"].get(gpu, 0.0)) for gpu, mib in fifth["gpu_mib"].items()}
    said = [
        f"{whose} has {late:,.0f} MiB at the end, and had {early:,.0f} after a fifth"
        for whose, (early, late) in memory.items()
        if late > _GROWTH * early + _MORE_MIB
    ]
    said += [
        f"{end[name]} {name} at the end, and {fifth[name]} after a fifth"
        for name in ("files", "threads")
        if end[name] > fifth[name]
    ]
    for name, wait in (("a first chunk", "first_worst_ms"), ("the next chunk", "gap_worst_ms")):
        if bounded and waits.get(wait, 0.0) > 1000 * LONGEST_WAIT_S:
            said.append(f"somebody waited {waits[wait] / 1000:.1f} s for {name}, and {LONGEST_WAIT_S:g} s is the bound")
    return said

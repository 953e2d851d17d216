"""Samples GPU utilization, memory and power with ``nvidia-smi``, twice a second."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_QUERY = ("index", "utilization.gpu", "memory.used", "power.draw")
_EVERY_S = 0.5
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Reading:
    """One sample of one GPU. at: Unix time. busy: percent of the time with a kernel running. memory: MiB. power: W."""

    at: float
    gpu: str
    busy: float
    memory: float
    power: float


@dataclass
class GpuWatch:
    """All samples so far; none without ``nvidia-smi``."""

    readings: list[Reading] = field(default_factory=list)

    def between(self, begin: float, end: float) -> dict[str, dict[str, float]]:
        """Return a summary per GPU of the samples between two Unix times; empty without samples."""
        chosen = [reading for reading in self.readings if begin <= reading.at <= end]
        return {gpu: _figures([each for each in chosen if each.gpu == gpu]) for gpu in sorted({r.gpu for r in chosen})}


@contextmanager
def watched() -> Iterator[GpuWatch]:
    """Sample in a background thread until the context is left."""
    watch, left = GpuWatch(), threading.Event()
    tool = shutil.which("nvidia-smi")
    thread = threading.Thread(target=_read, args=(tool, watch, left))
    if tool is not None:
        thread.start()
    try:
        yield watch
    finally:
        left.set()
        if tool is not None:
            thread.join(_PATIENCE_S)


def _read(tool: str, watch: GpuWatch, left: threading.Event) -> None:
    """Call ``nvidia-smi`` once per sample: the output of a long-running call may arrive late, several lines at once."""
    command = [tool, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    while not left.wait(_EVERY_S):
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S).stdout
        for line in told.splitlines():
            gpu, *values = (value.strip() for value in line.split(","))
            with suppress(ValueError, TypeError):  # unsupported values are "[N/A]"
                watch.readings.append(Reading(time.time(), gpu, *map(float, values)))


def _figures(readings: list[Reading]) -> dict[str, float]:
    return {
        "busy_percent": round(statistics.fmean(each.busy for each in readings), 1),
        "busiest_percent": max(each.busy for each in readings),
        "memory_mib": max(each.memory for each in readings),
        "power_watts": round(statistics.fmean(each.power for each in readings), 1),
    }

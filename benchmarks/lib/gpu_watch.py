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
_INTERVAL_S = 0.5
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class GpuSample:
    """One sample of one GPU. time: Unix time. busy: percent of time with a kernel running. memory: MiB. power: W."""

    time: float
    gpu: str
    busy: float
    memory: float
    power: float


@dataclass
class GpuWatch:
    """All samples so far; none without ``nvidia-smi``."""

    samples: list[GpuSample] = field(default_factory=list)

    def between(self, begin: float, end: float) -> dict[str, dict[str, float]]:
        """Return a summary per GPU of the samples between two Unix times; empty without samples."""
        chosen = [sample for sample in self.samples if begin <= sample.time <= end]
        return {gpu: _figures([each for each in chosen if each.gpu == gpu]) for gpu in sorted({r.gpu for r in chosen})}


@contextmanager
def watch_gpus() -> Iterator[GpuWatch]:
    """Sample in a background thread until the context is left."""
    watch, stop = GpuWatch(), threading.Event()
    tool = shutil.which("nvidia-smi")
    thread = threading.Thread(target=_read, args=(tool, watch, stop))
    if tool is not None:
        thread.start()
    try:
        yield watch
    finally:
        stop.set()
        if tool is not None:
            thread.join(_TIMEOUT_S)


def _read(tool: str, watch: GpuWatch, stop: threading.Event) -> None:
    """Call ``nvidia-smi`` once per sample: the output of a long-running call may arrive late, several lines at once."""
    command = [tool, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    while not stop.wait(_INTERVAL_S):
        output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S).stdout
        for line in output.splitlines():
            gpu, *values = (value.strip() for value in line.split(","))
            with suppress(ValueError, TypeError):  # unsupported values are "[N/A]"
                watch.samples.append(GpuSample(time.time(), gpu, *map(float, values)))


def _figures(samples: list[GpuSample]) -> dict[str, float]:
    return {
        "busy_percent": round(statistics.fmean(each.busy for each in samples), 1),
        "busiest_percent": max(each.busy for each in samples),
        "memory_mib": max(each.memory for each in samples),
        "power_watts": round(statistics.fmean(each.power for each in samples), 1),
    }

"""Keeps measured times in the user's cache folder, so that only the first start on an idle machine measures.

The file's name has a digest of what the times depend on besides their arguments: the processor, the number of cores,
Python's version, torch's, and this package's source.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec

import torch

from engine.system.cache_folder import cache_folder, write_atomically
from engine.system.cores import available_cores

_CPU_INFO, _CPU_TIMES = Path("/proc/cpuinfo"), Path("/proc/stat")
_BUSY = 0.25
"""Cores in use by other processes above which a time is not kept."""
_TICK_S = 0.02
"""Resolution of the system's CPU times."""
_measured: dict[str, float] = {}
"""Times that this process has measured, whether they are kept or not."""
_P = ParamSpec("_P")
_log = logging.getLogger(__name__)


def remembered(measure: Callable[_P, float]) -> Callable[_P, float]:
    """Return ``measure`` with its results kept on disk. The ``repr`` of its arguments must identify them.

    If other processes used the CPU meanwhile, a time is kept for this process only. Errors of the disk are logged.
    Concurrent processes may each measure a time.
    """

    @functools.wraps(measure)
    def remembering(*args: _P.args, **kwargs: _P.kwargs) -> float:
        key = f"{measure.__module__}.{measure.__qualname__} {args!r} {kwargs!r}"
        file = _file()
        known = _measured.get(key) or _read(file).get(key)
        if known:
            return known
        began, others = time.monotonic(), _cpu_seconds_of_others()
        measured = _measured[key] = measure(*args, **kwargs)
        others = _cpu_seconds_of_others() - others
        if file is not None and others <= _BUSY * (time.monotonic() - began) + _TICK_S:
            _write(file, _read(file) | {key: measured})
        return measured

    return remembering


def forget() -> None:
    """Delete what was measured on this machine."""
    _measured.clear()
    file = _file()
    if file is not None:
        with suppress(OSError):
            file.unlink()


@functools.cache
def _machine() -> str:
    """Return a digest of what all times depend on."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    parts = (_processor(), str(available_cores()), sys.version, torch.__version__)
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:16]


def _cpu_seconds_of_others() -> float:
    """Return the CPU seconds of all other processes since an arbitrary moment, or 0 where they are unknown."""
    try:
        user, nice, system, _idle, _iowait, *interrupts = _CPU_TIMES.read_text().split("\n", 1)[0].split()[1:9]
    except (OSError, ValueError):
        return 0.0
    ticks = sum(map(int, (user, nice, system, *interrupts)))
    return ticks / os.sysconf("SC_CLK_TCK") - sum(os.times()[:2])


def _processor() -> str:
    with suppress(OSError):
        for line in _CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line
    return platform.processor() or platform.machine()


def _file() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / f"timings-{_machine()}.json"


def _read(file: Path | None) -> dict[str, float]:
    """Return the times in a file by key, or nothing if it cannot be used."""
    if file is None:
        return {}
    try:
        times = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(times, dict) or not all(isinstance(value, float) for value in times.values()):
        return {}
    return times


def _write(file: Path, times: dict[str, float]) -> None:
    try:
        write_atomically(file, json.dumps(times).encode())
    except OSError as error:
        _log.warning("measured times are not cached, so every start measures them again: %s", error)

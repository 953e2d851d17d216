"""Keeps measured times in the user's cache folder, so that later starts do not measure them again.

The file's name has a digest of what the times depend on besides their arguments: the CPU, the number of cores, the
versions of Python, torch and numba, numba's settings, and this package's source.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ParamSpec

import torch

from engine.device.timing import Timing
from engine.system.cache_folder import cache_folder, write_atomically
from engine.system.cores import available_cores

_CPU_INFO = Path("/proc/cpuinfo")
_X86_FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
"""Fields of /proc/cpuinfo that identify a type of CPU."""
_ARM_FIELDS = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features")
"""The same on ARM."""
_SOURCE = Path(__file__).parents[1]
_measured: dict[str, float] = {}
"""Times that this process has measured, whether they are kept or not."""
_ignored = False
"""Whether cached times are not used."""
_P = ParamSpec("_P")
_log = logging.getLogger(__name__)


def cached_on_disk(measure: Callable[_P, Timing]) -> Callable[_P, float]:
    """Return ``measure`` with its times kept on disk. The ``repr`` of its arguments must identify them.

    A time that other processes disturbed is used by this process and not kept. Write errors are logged. Concurrent
    processes may each measure a time.
    """

    @functools.wraps(measure)
    def cached(*args: _P.args, **kwargs: _P.kwargs) -> float:
        key = f"{measure.__module__}.{measure.__qualname__} {args!r} {kwargs!r}"
        file = _file()
        known = _measured.get(key) or (None if _ignored else _read(file).get(key))
        if known:
            return known
        timing = measure(*args, **kwargs)
        _measured[key] = timing.time
        if file is not None and timing.disturbed:
            _log_once(
                logging.INFO, "other processes used the CPU during a measurement, so the next start measures again"
            )
        elif file is not None:
            _write(file, _read(file) | {key: timing.time})
        return timing.time

    return cached


def ignore_cached_times() -> None:
    """Make this process ignore cached times, measure, and overwrite them."""
    global _ignored
    _ignored = True


def cached_times_file() -> Path | None:
    """Return the file with the times of this machine, or None if none are kept."""
    file = _file()
    return file if file is not None and file.exists() else None


def _file() -> Path | None:
    folder, digest = cache_folder(), _digest()
    return None if folder is None or digest is None else folder / f"timings-{digest}.json"


@functools.cache
def _digest() -> str | None:
    """Return a digest of what all times depend on, or None if it cannot be computed."""
    digest = hashlib.sha256()
    try:
        for source in sorted(_SOURCE.rglob("*.py")):
            digest.update(source.read_bytes())
        versions = sys.version, torch.__version__, version("numba"), version("llvmlite")
    except (OSError, PackageNotFoundError) as error:
        _warn(str(error))
        return None
    settings = (os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"))
    digest.update("\0".join((_cpu(), str(available_cores()), *versions, *settings)).encode())
    return digest.hexdigest()[:16]


def _cpu() -> str:
    """Return a description of the first CPU, from which its type and its instructions can be told."""
    with suppress(OSError):
        first = _CPU_INFO.read_text().partition("\n\n")[0].splitlines()
        fields = [line for line in first if line.partition(":")[0].strip() in _X86_FIELDS + _ARM_FIELDS]
        if fields:
            return "\n".join(fields)
    return platform.processor() or platform.machine()


def _read(file: Path | None) -> dict[str, float]:
    """Return the times in a file by key, or nothing if it cannot be used."""
    if file is None:
        return {}
    try:
        times = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(times, dict):
        return {}
    usable = all(isinstance(time, float) and 0 < time < math.inf for time in times.values())
    return times if usable else {}


def _write(file: Path, times: dict[str, float]) -> None:
    try:
        write_atomically(file, json.dumps(times).encode())
    except OSError as error:
        _warn(f"{file.parent} cannot be written ({error.strerror})")


def _warn(reason: str) -> None:
    _log_once(logging.WARNING, f"measured times are not cached, so every start measures them again: {reason}")


@functools.cache
def _log_once(level: int, message: str) -> None:
    """Log a message, unless this process has logged it before."""
    _log.log(level, message)

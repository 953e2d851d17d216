"""GPU memory: measures what each part of the engine allocates, and sizes the talker's KV cache from the rest."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from engine.errors import SetupError

GIB = 1 << 30
_SHARE = 0.9
"""Share of the free memory that the engine may allocate when gpu_memory_gib is unset."""
_SPARE = GIB
"""Bytes of the limit reserved for allocations that cannot be measured in advance."""


@dataclass(frozen=True, slots=True)
class CacheNeed:
    """Memory requirements of the talker's KV cache.

    position: bytes per position. block: positions per cache block, the unit of allocation.
    least: minimum number of positions that the talker needs. most: maximum number that it can use.
    context: positions of one utterance, as configured.
    """

    position: int
    block: int
    least: int
    most: int
    context: int


def limit_of(free: int, gib: float | None) -> int:
    """Return the bytes that the engine may allocate: ``gib`` GiB, or 90 % of ``free`` bytes when ``gib`` is None.

    Raises SetupError if ``gib`` is more than is free.
    """
    if gib is None:
        return int(_SHARE * free)
    if gib * GIB > free:
        raise SetupError(
            f"gpu_memory_gib is {gib:g}, and {free / GIB:.1f} GiB of the GPU's memory are free", code="out_of_memory"
        )
    return int(gib * GIB)


def cache_positions(limit: int, taken: Mapping[str, int], need: CacheNeed) -> int:
    """Return the number of positions of the talker's KV cache: what is left of ``limit``, in whole blocks.

    The result is at most ``need.most``. Raises SetupError, with a suggestion, if it is below ``need.least``.

    taken: bytes allocated so far, by part of the engine.
    """
    left = limit - sum(taken.values()) - _SPARE
    positions = min(need.most, max(0, left) // need.position // need.block * need.block)
    if positions < need.least:
        raise SetupError(_too_little(limit, taken, need, positions), code="out_of_memory")
    return positions


def told(limit: int, taken: Mapping[str, int], positions: int, need: CacheNeed) -> str:
    """Return the log line that says how the memory is divided."""
    parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in taken.items())
    left = limit - sum(taken.values())
    whole = "all that its slots can use" if positions >= need.most else f"its slots could use {need.most:,}"
    return (
        f"GPU memory: {limit / GIB:.1f} GiB may be taken: {parts}, {left / GIB:.1f} left; the cache has {positions:,} "
        f"positions, {whole}"
    )


def _too_little(limit: int, taken: Mapping[str, int], need: CacheNeed, positions: int) -> str:
    """Return the error message: the available memory, the required memory and three ways to fix it."""
    parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in taken.items())
    wanted = math.ceil(10 * (sum(taken.values()) + _SPARE + need.least * need.position) / GIB) / 10
    message = (
        f"the GPU's memory is too small: of the {limit / GIB:.1f} GiB that may be taken, {parts} and "
        f"{_SPARE / GIB:.0f} to spare leave room for {positions:,} positions of the talker's cache, and "
        f"{need.least:,} are needed: {wanted:.1f} GiB would do (gpu_memory_gib)"
    )
    fitting = min(positions - 2 * need.block, need.context)
    if fitting > 0:
        message += f", or a talker.context of {fitting}, or talker.vllm.cache_positions below {positions}"
    return message + "; fewer talker.slots and code2wav.streams take less, too"


_GRAPHS = 1 << 30
"""Bytes that CUDA allocates for the graphs themselves, in addition to the working memory of captured steps."""
_log = logging.getLogger(__name__)


def out_of_memory(part: str, setting: str, error: torch.OutOfMemoryError) -> SetupError:
    """Return the SetupError for a ``part`` that does not fit on the GPU. A lower ``setting`` needs less memory."""
    free, total = (size / GIB for size in torch.cuda.mem_get_info())
    reason = str(error).partition(". ")[0]
    return SetupError(
        f"the GPU has no room for {part}: {reason}; {free:.1f} of its {total:.1f} GiB are free now. Lower {setting}, "
        "or let others on the GPU take less",
        code="out_of_memory",
    )


class GpuMemory:
    """Measures GPU memory while the engine loads, from the difference in free memory between two calls.

    Create it before anything is loaded. Nothing else may allocate or free memory on the GPU until everything is loaded.

    If ``gib`` is set, it also becomes torch's permanent limit in this process: allocations beyond it fail.
    Raises SetupError if the limit is more than is free.
    """

    def __init__(self, device: torch.device, gib: float | None) -> None:
        self._device = device
        self._free, total = torch.cuda.mem_get_info(device)
        self.limit = limit_of(self._free, gib)
        self._taken: Counter[str] = Counter()
        self._positions = 0
        self._need: CacheNeed | None = None
        if gib is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.limit / total), device.index)

    def took(self, part: str) -> None:
        """Attribute the memory allocated since the last call to ``part``."""
        torch.cuda.synchronize(self._device)
        free, _ = torch.cuda.mem_get_info(self._device)
        self._taken[part] += max(0, self._free - free)
        self._free = free

    def watch_peak(self) -> None:
        """Reset the peak counter. Call this after the talker's weights are loaded and before its longest step runs."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def cache_bytes(self, need: CacheNeed) -> int:
        """Return the bytes for the talker's KV cache. Call this after its longest step has run once.

        CUDA graphs are captured later and use their own working memory: as much as the peak of that step.
        Raises SetupError if too little memory is left.
        """
        self.took("talker")
        peak = torch.cuda.max_memory_allocated(self._device) - torch.cuda.memory_allocated(self._device)
        self._need = need
        self._positions = cache_positions(self.limit, {**self._taken, "its graphs": peak + _GRAPHS}, need)
        return self._positions * need.position

    def tell(self) -> None:
        """Log the memory of each part. Call this when everything is loaded. Warns if the total exceeds the limit."""
        self.took("its graphs")
        if self._need is None:
            return
        cache = self._positions * self._need.position
        self._taken["its graphs"] = max(0, self._taken["its graphs"] - cache)
        self._taken["its cache"] = cache
        _log.info("%s", told(self.limit, self._taken, self._positions, self._need))
        if self._taken.total() > self.limit:
            _log.warning("the engine takes more of the GPU's memory than it was meant to: lower talker.slots")

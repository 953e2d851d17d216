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
_DEFAULT_FRACTION = 0.9
"""Fraction of the free memory that the engine may allocate when gpu_memory_gib is unset."""
_RESERVE = GIB
"""Bytes of the limit reserved for allocations that cannot be measured in advance."""
_GRAPHS = GIB
"""Bytes that CUDA allocates for the graphs themselves, in addition to the working memory of captured steps."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheRequirements:
    """Memory requirements of the talker's KV cache.

    block_size: positions per cache block, the unit of allocation.
    min_positions: minimum number of positions that the talker needs. max_positions: maximum number that it can use.
    context: positions of one utterance, as configured.
    """

    bytes_per_position: int
    block_size: int
    min_positions: int
    max_positions: int
    context: int


def memory_limit(free: int, gib: float | None) -> int:
    """Return the bytes that the engine may allocate: ``gib`` GiB, or 90 % of ``free`` bytes when ``gib`` is None.

    Raises SetupError if ``gib`` is more than is free.
    """
    if gib is None:
        return int(_DEFAULT_FRACTION * free)
    if gib * GIB > free:
        raise SetupError(
            f"gpu_memory_gib must be at most {free / GIB:.1f}, the GiB that are free on the GPU, got {gib:g}",
            code="out_of_memory",
        )
    return int(gib * GIB)


def cache_positions(limit: int, allocated: Mapping[str, int], cache: CacheRequirements) -> int:
    """Return the number of positions of the talker's KV cache: what remains of ``limit``, in whole blocks.

    The result is at most ``cache.max_positions``. Raises SetupError, with a suggestion, if it is below
    ``cache.min_positions``.

    allocated: bytes allocated so far, by part of the engine.
    """
    remaining = max(0, limit - sum(allocated.values()) - _RESERVE)
    blocks = remaining // cache.bytes_per_position // cache.block_size
    positions = min(cache.max_positions, blocks * cache.block_size)
    if positions < cache.min_positions:
        raise SetupError(_too_small(limit, allocated, cache, positions), code="out_of_memory")
    return positions


def usage_message(limit: int, allocated: Mapping[str, int], positions: int, cache: CacheRequirements) -> str:
    """Return the log line that says how the memory is divided."""
    remaining = (limit - sum(allocated.values())) / GIB
    usable = f"can use at most {cache.max_positions:,}" if positions < cache.max_positions else "cannot use more"
    return (
        f"GPU memory: limit {limit / GIB:.1f} GiB: {_parts(allocated)}, unallocated {remaining:.1f}; the KV cache has "
        f"{positions:,} positions, talker.slots {usable}"
    )


def _too_small(limit: int, allocated: Mapping[str, int], cache: CacheRequirements, positions: int) -> str:
    """Return the error message: the available memory, the required memory and three ways to fix it."""
    required = sum(allocated.values()) + _RESERVE + cache.min_positions * cache.bytes_per_position
    message = (
        f"the KV cache of the talker needs {cache.min_positions:,} positions, but GPU memory suffices for "
        f"{positions:,} (limit {limit / GIB:.1f} GiB: {_parts(allocated)}, reserve {_RESERVE / GIB:.1f}): set "
        f"gpu_memory_gib to at least {math.ceil(10 * required / GIB) / 10:.1f}"
    )
    context = min(positions - 2 * cache.block_size, cache.context)
    if context > 0:
        message += f", or talker.context to {context}, or talker.vllm.cache_positions below {positions}"
    return message + ", or lower talker.slots or code2wav.streams"


def _parts(allocated: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {size / GIB:.1f}" for part, size in allocated.items())


def out_of_memory(part: str, setting: str, error: torch.OutOfMemoryError) -> SetupError:
    """Return the SetupError for a ``part`` that does not fit on the GPU. A lower ``setting`` needs less memory."""
    free, total = (size / GIB for size in torch.cuda.mem_get_info())
    reason = str(error).partition(". ")[0]
    return SetupError(
        f"the GPU has no room for {part}: {reason}; {free:.1f} of its {total:.1f} GiB are free. Lower {setting}, or "
        "stop other processes on the GPU",
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
        self.limit = memory_limit(self._free, gib)
        self._allocated: Counter[str] = Counter()
        self._positions = 0
        self._cache: CacheRequirements | None = None
        if gib is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.limit / total), device.index)

    def record(self, part: str) -> None:
        """Attribute the memory allocated since the last call to ``part``."""
        torch.cuda.synchronize(self._device)
        free, _ = torch.cuda.mem_get_info(self._device)
        self._allocated[part] += max(0, self._free - free)
        self._free = free

    def reset_peak(self) -> None:
        """Reset the peak counter. Call this after the talker's weights are loaded and before its longest step runs."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def cache_bytes(self, cache: CacheRequirements) -> int:
        """Return the bytes for the talker's KV cache. Call this after its longest step has run once.

        CUDA graphs are captured later and use their own working memory: as much as the peak of that step.
        Raises SetupError if too little memory is left.
        """
        self.record("talker")
        peak = torch.cuda.max_memory_allocated(self._device) - torch.cuda.memory_allocated(self._device)
        self._cache = cache
        self._positions = cache_positions(self.limit, {**self._allocated, "CUDA graphs": peak + _GRAPHS}, cache)
        return self._positions * cache.bytes_per_position

    def log_usage(self) -> None:
        """Log the memory of each part. Call this when everything is loaded. Warns if the total exceeds the limit."""
        self.record("CUDA graphs")
        if self._cache is None:
            return
        cache_bytes = self._positions * self._cache.bytes_per_position
        self._allocated["CUDA graphs"] = max(0, self._allocated["CUDA graphs"] - cache_bytes)
        self._allocated["KV cache"] = cache_bytes
        _log.info("%s", usage_message(self.limit, self._allocated, self._positions, self._cache))
        if (total := self._allocated.total()) > self.limit:
            _log.warning(
                "the engine allocated %.1f GiB of GPU memory, above its limit of %.1f GiB: lower talker.slots",
                total / GIB,
                self.limit / GIB,
            )

"""GPU memory: how it is divided among the parts of the engine, and what each part was measured to take."""

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
"""Of what is free at the start, where no limit is configured."""
_SPARE = GIB
"""Inside the limit, for what cannot be measured before it is there."""


@dataclass(frozen=True, slots=True)
class CacheNeed:
    """The talker's keys and values.

    position: bytes of one. block: positions that are had only together. least: positions below which it cannot work;
    most: all that can ever be used. context: positions of one utterance, as configured.
    """

    position: int
    block: int
    least: int
    most: int
    context: int


def limit_of(free: int, gib: float | None) -> int:
    """Bytes that the engine may take of ``free`` ones: those that are configured, or nine tenths.

    Raises SetupError where fewer are free than are configured.
    """
    if gib is None:
        return int(_SHARE * free)
    if gib * GIB > free:
        raise SetupError(
            f"gpu_memory_gib is {gib:g}, and {free / GIB:.1f} GiB of the GPU's memory are free", code="out_of_memory"
        )
    return int(gib * GIB)


def cache_positions(limit: int, taken: Mapping[str, int], need: CacheNeed) -> int:
    """Positions of the talker's cache: what is left of ``limit``, in whole blocks, and no more than can be used.

    taken: who has how many bytes of it. Raises SetupError with what would do, where too little is left.
    """
    left = limit - sum(taken.values()) - _SPARE
    positions = min(need.most, max(0, left) // need.position // need.block * need.block)
    if positions < need.least:
        raise SetupError(_too_little(limit, taken, need, positions), code="out_of_memory")
    return positions


def told(limit: int, taken: Mapping[str, int], positions: int, need: CacheNeed) -> str:
    """The division, in one line of a log."""
    parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in taken.items())
    left = limit - sum(taken.values())
    whole = "all that its slots can use" if positions >= need.most else f"its slots could use {need.most:,}"
    return (
        f"GPU memory: {limit / GIB:.1f} GiB may be taken: {parts}, {left / GIB:.1f} left; the cache has {positions:,} "
        f"positions, {whole}"
    )


def _too_little(limit: int, taken: Mapping[str, int], need: CacheNeed, positions: int) -> str:
    """What is there, what is needed, and three ways out."""
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
"""Beside the memory that captured steps compute in: what CUDA keeps of the graphs themselves."""
_log = logging.getLogger(__name__)


def out_of_memory(part: str, setting: str, error: torch.OutOfMemoryError) -> SetupError:
    """What is said where ``part`` does not fit on the GPU; less of ``setting`` takes less."""
    free, total = (size / GIB for size in torch.cuda.mem_get_info())
    reason = str(error).partition(". ")[0]
    return SetupError(
        f"the GPU has no room for {part}: {reason}; {free:.1f} of its {total:.1f} GiB are free now. Lower {setting}, "
        "or let others on the GPU take less",
        code="out_of_memory",
    )


class GpuMemory:
    """From before anything is loaded, until everything is. Nothing else on the GPU may come or go meanwhile.

    Where a limit is configured, torch is held to it in this process from then on: what would go beyond fails.
    Raises SetupError where the limit is more than is free.
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
        """What has been taken since the last call is ``part``'s."""
        torch.cuda.synchronize(self._device)
        free, _ = torch.cuda.mem_get_info(self._device)
        self._taken[part] += max(0, self._free - free)
        self._free = free

    def watch_peak(self) -> None:
        """The talker's weights are there; its longest step is about to run."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def cache_bytes(self, need: CacheNeed) -> int:
        """Bytes of the talker's cache, when its longest step has been run once.

        Its graphs come later, and compute in memory of their own: as much as that step has taken at its height.
        Raises SetupError where too little is left.
        """
        self.took("talker")
        peak = torch.cuda.max_memory_allocated(self._device) - torch.cuda.memory_allocated(self._device)
        self._need = need
        self._positions = cache_positions(self.limit, {**self._taken, "its graphs": peak + _GRAPHS}, need)
        return self._positions * need.position

    def tell(self) -> None:
        """Everything is loaded: say in the log who has what."""
        self.took("its graphs")
        if self._need is None:
            return
        cache = self._positions * self._need.position
        self._taken["its graphs"] = max(0, self._taken["its graphs"] - cache)
        self._taken["its cache"] = cache
        _log.info("%s", told(self.limit, self._taken, self._positions, self._need))
        if self._taken.total() > self.limit:
            _log.warning("the engine takes more of the GPU's memory than it was meant to: lower talker.slots")

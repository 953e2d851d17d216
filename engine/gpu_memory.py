"""What the engine's parts take of the GPU's memory, measured one after the other while they are loaded."""

from __future__ import annotations

import logging
from collections import Counter

import torch

from engine.errors import SetupError
from engine.memory import GIB, CacheNeed, cache_positions, limit_of, told

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

"""How the GPU's memory is divided among what the engine holds there. Arithmetic; ``engine.gpu_memory`` measures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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

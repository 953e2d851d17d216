"""Uniform numbers that depend on (seed, frame, codebook) and on nothing else.

Every code of every request has its own number, so a request draws the same codes alone, in any batch, and after
being paused. The generator is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX2 = 0x94D049BB133111EB - (1 << 64)


def uniforms(seeds: Tensor, frames: Tensor, codebooks: int) -> Tensor:
    """float64 [rows, codebooks] in [0, 1) for int64 seeds [rows] at frame numbers [rows]."""
    books = torch.arange(1, codebooks + 1, device=seeds.device)
    counters = frames[:, None] * codebooks + books
    bits = _mix(_mix(seeds)[:, None] + counters * _GOLDEN)
    return _shift(bits, 32).double() * 2.0**-32


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _MIX1
    z = (z ^ _shift(z, 27)) * _MIX2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    """Logical right shift: torch's is arithmetic."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)

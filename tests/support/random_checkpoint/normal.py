"""Normally distributed numbers with the same bits on every processor.

``torch.randn`` gives different last bits with AVX2 than elsewhere (1.2 million of 3 million values differ on ARM), and
the expected results of the reference implementation belong to those of AVX2. So this follows that algorithm: Box-Muller
with the single-precision logarithm, sine and cosine of the Cephes library, with the multiplications and additions that
torch's compiler fuses.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

_BLOCK = 16
"""torch fills blocks of this size: 8 pairs of a radius and an angle. Smaller tensors take another path."""
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_LN_2 = (-2.12194440e-4, 0.693359375)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI = (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)


def randn(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Return what ``torch.randn`` returns on a CPU with AVX2: float32 [shape]. generator: of the CPU."""
    size = math.prod(shape)
    if size < _BLOCK:
        return torch.randn(shape, generator=generator, device="cpu")
    uniform = torch.rand(size, generator=generator, device="cpu").numpy()
    values = np.empty(size, np.float32)
    whole = size - size % _BLOCK
    values[:whole] = _box_muller(uniform[:whole])
    if whole < size:
        values[-_BLOCK:] = _box_muller(torch.rand(_BLOCK, generator=generator, device="cpu").numpy())
    return torch.from_numpy(values).reshape(shape)


def _box_muller(uniform: Floats) -> Floats:
    blocks = uniform.reshape(-1, _BLOCK)
    radius = np.sqrt(np.float32(-2) * _log(np.float32(1) - blocks[:, : _BLOCK // 2]))
    sine, cosine = _sine_and_cosine(np.float32(2 * math.pi) * blocks[:, _BLOCK // 2 :])
    normal = np.concatenate([radius * cosine, radius * sine], axis=1).reshape(-1)
    return normal + np.float32(0)  # torch adds the mean, which makes 0.0 of -0.0


def _log(x: Floats) -> Floats:
    mantissa, exponent = np.frexp(x)
    small = mantissa < np.float32(math.sqrt(0.5))
    exponent = (exponent - small).astype(np.float32)
    x = mantissa - np.float32(1) + np.where(small, mantissa, np.float32(0))
    square = x * x
    y = _polynomial(_LOG, x) * x
    y = _fma(y, square, exponent * np.float32(_LN_2[0]))
    y = _fma(square, -0.5, y)
    return _fma(exponent, _LN_2[1], x + y)


def _sine_and_cosine(x: Floats) -> tuple[Floats, Floats]:
    """Return sine and cosine of angles that are not negative, from the nearest even multiple of a quarter of pi."""
    octant = ((x * np.float32(4 / math.pi)).astype(np.int32) + 1) & ~1
    for part in _QUARTER_PI:
        x = _fma(octant.astype(np.float32), -part, x)
    square = x * x
    cosine = _fma(_polynomial(_COS, square) * square, square, square * np.float32(-0.5)) + np.float32(1)
    sine = _fma(_polynomial(_SIN, square) * square, x, x)
    swapped = (octant & 2) != 0
    sine, cosine = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    return np.where((octant & 4) != 0, -sine, sine), np.where(((octant + 2) & 4) != 0, -cosine, cosine)


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y = _fma(y, x, coefficient)
    return y


def _fma(a: Floats, b: Floats | float, c: Floats | float) -> Floats:
    """Return a * b + c, rounded once: the product of two float32 is exact in float64."""
    product = a.astype(np.float64) * np.asarray(b, np.float32).astype(np.float64)
    return (product + np.asarray(c, np.float32).astype(np.float64)).astype(np.float32)

"""The code predictor's matrices in fp8: e4m3 values with one power-of-two scale for all matrices.

e4m3 has four significant bits over fifteen powers of two, so one scale is enough for trained weights. A value with
four significant bits times a power of two is exactly representable in bfloat16. Therefore a kernel that reads fp8
weights computes the same result as any other kernel does with the output of ``round_to_fp8``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.talker.fused.weights import PredictorWeights

_E4M3 = torch.float8_e4m3fn
_MAX = torch.finfo(_E4M3).max
_MATRICES = ("project", "qkv", "out", "gate_up", "down", "heads")
_SCALES = (-7, 60)
"""Smallest and largest scale exponent: bfloat16 can represent ``bfloat16_factor`` and the smallest scaled value."""
_EXPONENT_BIAS = 120
"""Exponent-bias difference: e4m3 bits read as bfloat16 give a value that is 2**120 times too small."""
_BFLOAT16_BIAS, _BFLOAT16_MANTISSA = 127, 7
_MAX_ERROR = 0.05
"""Largest relative rounding error (Frobenius norm) allowed for a matrix. Trained weights have 0.027."""


class Fp8PrecisionError(Exception):
    """No common scale fits all matrices in fp8. The message gives the relative error of one matrix."""


def fp8_scale(weights: PredictorWeights) -> int:
    """Return the exponent n such that the matrices times 2**n are e4m3 values."""
    return _scale(_matrices(weights))


def round_to_fp8(weights: PredictorWeights) -> PredictorWeights:
    """Return ``weights`` with all matrices rounded to fp8 values, in their original dtype.

    The projected ``inputs`` are recomputed from the rounded matrices, as ``gather`` does. Raises Fp8PrecisionError.
    """
    rounded: dict[str, Any] = round_matrices_to_fp8(_matrices(weights))
    if weights.project is not None and weights.project_bias is not None:
        rows, bias = weights.tables[: len(weights.inputs)], weights.project_bias.to(weights.dtype)
        rounded["inputs"] = F.linear(rows, rounded["project"], bias)
    return replace(weights, **rounded)


def round_matrices_to_fp8(matrices: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round all matrices of a code predictor, bfloat16 or float32, to fp8 values. Their dtype stays.

    Raises Fp8PrecisionError when the relative error of a matrix is above 5 %.
    """
    factor, rounded = 2.0 ** _scale(matrices), {}
    for name, matrix in matrices.items():
        rounded[name] = _to_e4m3(matrix, factor).to(matrix.dtype) / factor
        error = float((rounded[name] - matrix).float().norm() / matrix.float().norm().clamp_min(1e-30))
        if not error <= _MAX_ERROR:
            raise Fp8PrecisionError(
                f"with one scale for all matrices, the relative error of {name} is {error:.0%}; at most "
                f"{_MAX_ERROR:.0%} is allowed"
            )
    return rounded


def pack_fp8(stream: Tensor, scale: int) -> Tensor:
    """Convert the output of ``pack`` for rounded weights to fp8: uint8 [blocks, warps, pairs of units, 512].

    The eight values that a CUDA lane reads from the first unit of a pair are next to its eight from the second unit.
    In each group of four values the middle two are swapped, so the even bytes of a 32-bit word are the first two
    values (``fp8_to_bfloat16`` in cuda/stream.h).
    """
    pairs = [_to_e4m3(block, 2.0**scale).view(torch.uint8).unflatten(-2, (-1, 2)) for block in stream]
    lanes = torch.stack(pairs).unflatten(-1, (32, 2, 4))[..., [0, 2, 1, 3]]
    return lanes.transpose(-4, -3).flatten(-4).contiguous()


def bfloat16_factor(scale: int) -> int:
    """Return 2**(120 - scale) as bfloat16, twice in one 32-bit word.

    The kernel moves e4m3 bits to the bit positions of bfloat16 and multiplies them by this factor.
    """
    bits = (_BFLOAT16_BIAS + _EXPONENT_BIAS - scale) << _BFLOAT16_MANTISSA
    return bits << 16 | bits


def _matrices(weights: PredictorWeights) -> dict[str, Tensor]:
    named = {name: getattr(weights, name) for name in _MATRICES}
    return {name: matrix for name, matrix in named.items() if matrix is not None}


def _scale(matrices: Mapping[str, Tensor]) -> int:
    """Return the largest n in _SCALES for which no value times 2**n overflows e4m3.

    If the largest value is zero, infinite or NaN, return the upper end of _SCALES.
    """
    largest = max(float(matrix.abs().max()) for matrix in matrices.values())
    minimum, maximum = _SCALES
    if not 0 < largest < math.inf:
        return maximum
    return min(max(math.floor(math.log2(_MAX / largest)), minimum), maximum)


def _to_e4m3(matrix: Tensor, factor: float) -> Tensor:
    return (matrix.float() * factor).clamp(-_MAX, _MAX).to(_E4M3)

"""The code predictor's matrices in eight bits: e4m3 numbers, times one power of two for all of them.

e4m3 has four significant bits over fifteen powers of two, so one scale does for weights as they are trained, and a
number of four significant bits times a power of two is a number of bfloat16. So what a kernel that reads eight bits
computes is what any other computes from ``rounded`` weights.
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
_LARGEST = torch.finfo(_E4M3).max
_MATRICES = ("project", "qkv", "out", "gate_up", "down", "heads")
_SCALES = (-7, 60)
"""Powers of two for which ``unit`` is a number of bfloat16, and e4m3's smallest one, too."""
_UNIT = 120
"""How many powers of two smaller bfloat16 takes the bits of e4m3 to be than they are."""
_MOST_OFF = 0.05
"""Of a matrix's size, that rounding may take off. Of weights as they are trained it takes 0.027."""


class PoorFit(Exception):
    """The matrices have no scale in common with which eight bits hold them. Its text says how far off they would be."""


def scale_of(weights: PredictorWeights) -> int:
    """The power of two with which the matrices' numbers are multiplied to be those of e4m3."""
    return _scale(_matrices(weights))


def rounded(weights: PredictorWeights) -> PredictorWeights:
    """The same as ``gather`` makes it of matrices that eight bits hold, in the type they had. Raises PoorFit."""
    fewer: dict[str, Any] = rounded_matrices(_matrices(weights))
    if weights.project is not None and weights.project_bias is not None:
        rows, bias = weights.tables[: len(weights.inputs)], weights.project_bias.to(weights.dtype)
        fewer["inputs"] = F.linear(rows, fewer["project"], bias)
    return replace(weights, **fewer)


def rounded_matrices(matrices: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All matrices of a code predictor, bfloat16 or float32, with numbers that eight bits hold. Raises PoorFit."""
    factor, found = 2.0 ** _scale(matrices), {}
    for name, matrix in matrices.items():
        found[name] = _narrow(matrix, factor).to(matrix.dtype) / factor
        off = float((found[name] - matrix).float().norm() / matrix.float().norm().clamp_min(1e-30))
        if not off <= _MOST_OFF:
            raise PoorFit(f"with one scale for all matrices {name} would be {off:.0%} off")
    return found


def narrowed(stream: Tensor, scale: int) -> Tensor:
    """What ``pack`` makes of rounded weights, in eight bits: uint8 [blocks, warps, pairs of units, 512].

    A lane's eight numbers of the one unit and of the other are neighbours; of four numbers the middle two are
    exchanged, so that a word's even bytes are the first two (``of_eight_bits`` in stream.h).
    """
    pairs = [_narrow(block, 2.0**scale).view(torch.uint8).unflatten(-2, (-1, 2)) for block in stream]
    lanes = torch.stack(pairs).unflatten(-1, (32, 2, 4))[..., [0, 2, 1, 3]]
    return lanes.transpose(-4, -3).flatten(-4).contiguous()


def unit(scale: int) -> int:
    """What e4m3's bits, moved to where bfloat16 has its own, are multiplied by: 2^(120 - scale) twice, bfloat16."""
    bits = (127 + _UNIT - scale) << 7
    return bits << 16 | bits


def _matrices(weights: PredictorWeights) -> dict[str, Tensor]:
    named = {name: getattr(weights, name) for name in _MATRICES}
    return {name: matrix for name, matrix in named.items() if matrix is not None}


def _scale(matrices: Mapping[str, Tensor]) -> int:
    """The largest n of _SCALES with which no number times 2^n is beyond e4m3. Any where a number is none."""
    largest = max(float(matrix.abs().max()) for matrix in matrices.values())
    least, most = _SCALES
    if not 0 < largest < math.inf:
        return most
    return min(max(math.floor(math.log2(_LARGEST / largest)), least), most)


def _narrow(matrix: Tensor, factor: float) -> Tensor:
    return (matrix.float() * factor).clamp(-_LARGEST, _LARGEST).to(_E4M3)

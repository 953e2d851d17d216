"""Quantizes a matrix to 4 bits so that its products change least for the inputs that it gets (GPTQ).

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022. The
columns are rounded one after the other, and the error of each is compensated in the columns that follow, as far as
the inputs are correlated. Scales and offsets of groups are fitted as in ``engine.kernels.quantization``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.quantization import GROUP, MAX_INT4, MIN_INT4, GroupCodes, fit_groups, pack_nibbles

_DAMPING = 0.05
"""Added to the diagonal of the second moments, relative to its mean, so that few inputs are enough."""


def quantize_for_inputs(weight: Tensor, moments: Tensor) -> GroupCodes:
    """Quantize a float32 matrix [out, in] to 4 bits. ``in`` must be a multiple of 32.

    moments: [in, in], the sum of x x^T over inputs x of the matrix. Must be finite.
    """
    outputs, inputs = weight.shape
    rest = weight.T.contiguous()  # [in, out], so that a column of the matrix is contiguous
    factor = _compensation(moments)
    codes = torch.empty((inputs, outputs), dtype=torch.int8)
    scales, offsets = (torch.empty((outputs, inputs // GROUP), dtype=torch.bfloat16) for _ in range(2))
    for start in range(0, inputs, GROUP):
        stop = start + GROUP
        _, scale, offset = fit_groups(rest[start:stop])
        scales[:, start // GROUP], offsets[:, start // GROUP] = scale, offset
        errors = torch.empty((GROUP, outputs))
        for column in range(start, stop):
            rounded = ((rest[column] - offset) / scale).round_().clamp_(MIN_INT4, MAX_INT4)
            codes[column] = rounded
            error = (rest[column] - rounded * scale - offset).div_(factor[column, column])
            errors[column - start] = error
            rest[column + 1 : stop].addr_(factor[column, column + 1 : stop], error, alpha=-1)
        rest[stop:].addmm_(factor[start:stop, stop:].T, errors, alpha=-1)
    return GroupCodes(pack_nibbles(codes.T.contiguous()), scales, offsets)


def _compensation(moments: Tensor) -> Tensor:
    """Return the upper Cholesky factor of the inverse of the damped second moments, float32 [in, in]."""
    damped = moments.double()
    mean = damped.diagonal().mean().item() or 1.0  # all inputs may be zero
    damped.diagonal().add_(_DAMPING * mean)
    return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True).float()

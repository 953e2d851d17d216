"""A linear layer with batch-invariant rows and weights packed as float16.

On a CPU one decode step reads every weight once, so its time is proportional to the size of the weights. Published
talker weights are bfloat16. Stored as float16 and widened inside FBGEMM's kernel, they give the float32 result at half
the memory traffic of a float32 product.

A row is bit-identical in a batch of 1 and a batch of 32. With MKL's float32 product it is not. So the codes of a
request do not depend on the other requests in its batch. With AVX-512, FBGEMM adds the products of
a row in the same order for any number of rows. With AVX2 the order is another one where its block of rows has one or
two, so such products get rows of padding.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

_fbgemm = torch.ops._quantized
"""The operators that torch's CPU compiler uses. ``quantized::linear_dynamic_fp16`` costs 6 us more per call."""
_LARGEST_HALF = 65_504.0
_HALF_ROUNDING = 2.0**-25
"""Half the spacing of float16 subnormals: the most that a bfloat16 weight can lose when stored as float16."""
_BLOCK_ROWS = 120
"""FBGEMM divides larger batches into blocks of this many rows."""
_BLOCK_VALUES = 1 << 16
"""Weights to compare at once."""
_LOW_SCALE = 2.0**11
"""float16 has 11 significant bits. The next 11 are scaled by this factor, so that they are not subnormal."""


class Linear:
    """``y = x W^T + b`` for x [rows, in], W [out, in] and b [out] or None.

    When FBGEMM is available on a CPU, float32 weights are packed as one float16 matrix if that is exact, else as the
    sum of two (22 bits). Otherwise this is ``torch.nn.functional.linear``, the reference implementation.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features = weight.shape[0]
        self._weight, self._bias = weight, bias
        self._low: Tensor | None = None
        self._packs = _fbgemm_runs(weight)
        self._row_counts: tuple[int, ...] = ()
        if self._packs:
            self._pack(weight)
            self._row_counts = _batch_invariant_row_counts()

    def _pack(self, weight: Tensor) -> None:
        if _half_is_exact(weight):
            self._weight = _fbgemm.wrapped_fbgemm_pack_gemm_matrix_fp16(weight)
            return
        high = weight.half().float()
        self._weight = _fbgemm.wrapped_fbgemm_pack_gemm_matrix_fp16(high)
        low = torch.sub(weight, high, out=high).mul_(_LOW_SCALE).half().float()
        self._low = _fbgemm.wrapped_fbgemm_pack_gemm_matrix_fp16(low)

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, in] -> [rows, out]."""
        if not self._packs:
            return F.linear(x, self._weight, self._bias)
        if self._row_counts:
            rows = x.numel() // x.shape[-1]
            padding = self._row_counts[rows % _BLOCK_ROWS] - rows % _BLOCK_ROWS
            if padding:
                flat = x.reshape(rows, -1)
                # A single row is repeated, which is cheaper than padding.
                padded = flat.expand(1 + padding, -1) if rows == 1 else F.pad(flat, (0, 0, 0, padding))
                return self._multiply(padded)[:rows].view(*x.shape[:-1], -1)
        return self._multiply(x)

    def _multiply(self, x: Tensor) -> Tensor:
        y: Tensor = _fbgemm.wrapped_fbgemm_linear_fp16_weight(x, self._weight, self._bias, self.out_features)
        if self._low is not None:
            low = _fbgemm.wrapped_fbgemm_linear_fp16_weight(x, self._low, None, self.out_features)
            y.add_(low, alpha=1 / _LOW_SCALE)
        return y


@cache
def _batch_invariant_row_counts() -> tuple[int, ...]:
    """Return for each number of rows below ``_BLOCK_ROWS`` the next one whose sums have the same order as most.

    Empty if all have. Measured with a row that is repeated: its results must all be equal.
    """
    inputs = 256
    weight = torch.linspace(-1, 1, inputs * inputs).sin_().view(inputs, inputs)[:16]
    packed = _fbgemm.wrapped_fbgemm_pack_gemm_matrix_fp16(weight)
    x = torch.linspace(-1, 1, inputs).cos_().expand(_BLOCK_ROWS, inputs).contiguous()
    whole = _fbgemm.wrapped_fbgemm_linear_fp16_weight(x, packed, None, 16)
    counts = [_BLOCK_ROWS]
    for rows in range(_BLOCK_ROWS - 1, 0, -1):
        y = _fbgemm.wrapped_fbgemm_linear_fp16_weight(x[:rows], packed, None, 16)
        counts.append(rows if torch.equal(y, whole[:1].expand_as(y)) else counts[-1])
    counts.append(0)
    counts.reverse()
    return () if counts == list(range(_BLOCK_ROWS + 1)) else tuple(counts)


def _half_is_exact(weight: Tensor) -> bool:
    """Return whether float16 holds a matrix. Compares a few rows at a time, so that it allocates little memory."""
    rows = max(1, _BLOCK_VALUES // weight.shape[1])
    rests = (block - block.half().float() for block in weight.split(rows))
    return all(_largest(rest) <= _HALF_ROUNDING for rest in rests)


def _largest(tensor: Tensor) -> float:
    """Return the largest absolute value. ``torch.linalg.vector_norm`` is many times slower."""
    return max(abs(value.item()) for value in torch.aminmax(tensor))


def _fbgemm_runs(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and "fbgemm" in torch.backends.quantized.supported_engines
        and hasattr(_fbgemm, "wrapped_fbgemm_linear_fp16_weight")
        and _largest(weight) < _LARGEST_HALF
    )

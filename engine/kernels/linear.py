"""A matrix product whose rows do not depend on each other, and whose weights are read at half width.

On a CPU one decode step reads every weight once, so it takes as long as the weights are wide. Published talker
weights are bfloat16; held as float16 and widened inside FBGEMM's kernel they give the float32 result at half the
memory traffic of a float32 product. FBGEMM also computes each row by itself, bit for bit the same in a batch of 1 or
32, which MKL's float32 product does not: so a request's codes do not depend on its neighbours.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_fbgemm = torch.ops._quantized
"""The operators that torch's own CPU compiler calls; ``quantized::linear_dynamic_fp16`` costs 6 us a call more."""
_LARGEST_HALF = 65_504.0
_HALF_ROUNDING = 2.0**-25
"""Half the spacing of float16's subnormals: what a bfloat16 weight may lose."""
_LOW_SCALE = 2.0**11
"""float16 keeps 11 bits; the next 11 are stored scaled up, so that they are not subnormal."""


class Linear:
    """``y = x W^T + b`` for x [rows, in], W [out, in] and b [out] or None.

    Where FBGEMM runs, float32 weights are packed as one float16 matrix if that is exact, else as a sum of two
    (22 bits). Elsewhere it is ``torch.nn.functional.linear``, its twin.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features = weight.shape[0]
        self._weight, self._bias = weight, bias
        self._low: Tensor | None = None
        self._packs = _fbgemm_runs(weight)
        if self._packs:
            self._pack(weight)

    def _pack(self, weight: Tensor) -> None:
        high = weight.half().float()
        rest = weight - high
        self._weight = _fbgemm.wrapped_fbgemm_pack_gemm_matrix_fp16(high)
        if rest.abs().max().item() > _HALF_ROUNDING:
            low = (rest * _LOW_SCALE).half().float()
            self._low = _fbgemm.wrapped_fbgemm_pack_gemm_matrix_fp16(low)

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, in] -> [rows, out]."""
        if not self._packs:
            return F.linear(x, self._weight, self._bias)
        y: Tensor = _fbgemm.wrapped_fbgemm_linear_fp16_weight(x, self._weight, self._bias, self.out_features)
        if self._low is not None:
            low = _fbgemm.wrapped_fbgemm_linear_fp16_weight(x, self._low, None, self.out_features)
            y.add_(low, alpha=1 / _LOW_SCALE)
        return y


def _fbgemm_runs(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and "fbgemm" in torch.backends.quantized.supported_engines
        and hasattr(_fbgemm, "wrapped_fbgemm_linear_fp16_weight")
        and weight.abs().max().item() < _LARGEST_HALF
    )

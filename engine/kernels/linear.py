"""A linear layer with batch-invariant rows and weights packed as float16.

On a CPU one decode step reads every weight once, so its time is proportional to the size of the weights. Published
talker weights are bfloat16. Stored as float16 and widened inside FBGEMM's kernel, they give the float32 result at half
the memory traffic of a float32 product.

FBGEMM also computes each row separately: a row is bit-identical in a batch of 1 and a batch of 32. With MKL's float32
product it is not. So the codes of a request do not depend on the other requests in its batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_fbgemm = torch.ops._quantized
"""The operators that torch's CPU compiler uses. ``quantized::linear_dynamic_fp16`` costs 6 us more per call."""
_LARGEST_HALF = 65_504.0
_HALF_ROUNDING = 2.0**-25
"""Half the spacing of float16 subnormals: the most that a bfloat16 weight can lose when stored as float16."""
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

"""Linear layers with weights in 8 or 4 bits, and batch-invariant rows.

On a CPU one decode step reads every weight once, so fewer bits are less time and less memory. A row is bit-identical
in a batch of 1 and a batch of 32, as with ``engine.kernels.linear.Linear``.

The layers use operators of torch that some CPUs and versions lack. Without them, a layer multiplies with the
dequantized weights in a ``Linear``: the same speech up to rounding, without the gain in time or memory.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from engine.kernels.linear import Linear, LinearLayer
from engine.kernels.quantization import (
    GROUP,
    GroupCodes,
    RowCodes,
    quantize_groups,
    quantize_rows,
    supports_int4,
)

_HALF_RANGE = 63.0
"""Activations are codes from -63 to 63. Two products of a code of 7 bits and a weight of 8 bits fit in the 16 bits in
which CPUs without VNNI add them."""
_ZERO_POINT = 64
_FINE = 126.0
"""The residual of a rounded activation, at most 0.5, is multiplied by this, so that it uses the same range."""
_HALF_RANGE_FACTOR, _FINE_FACTOR = torch.tensor(_HALF_RANGE), torch.tensor(_FINE)
"""As tensors, because torch converts a number to a tensor at every call."""
_PACK_ROWS = 64
"""The largest number of rows that a kernel of torch puts into one block of its 4-bit layout."""
_VECTORIZED = ("AVX2", "AVX512")
"""Capabilities for which torch has a vectorized 4-bit product. Its plain C++ loop is far slower than float32."""

_log = logging.getLogger(__name__)


class Int8Linear:
    """A product with weights of 8 bits, in integers, by FBGEMM.

    FBGEMM multiplies codes of 7 bits. A single code would lose too much of an activation: in a trained transformer some
    are 100 times as large as most. So a row becomes two rows of codes, the rounded activations and what the rounding
    lost, which is 14 bits. The time of a product is that of reading its weights, so the second row is almost free.

    Every row has a scale of its own and sums of integers are exact, so the other rows have no influence.
    """

    def __init__(self, weight: RowCodes) -> None:
        self.out_features = len(weight.scales)
        scales = weight.scales.double() / _HALF_RANGE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces that quantized tensors will be removed
            previous = torch.backends.quantized.engine
            torch.backends.quantized.engine = "fbgemm"
            try:
                quantized = torch._make_per_channel_quantized_tensor(
                    weight.codes, scales, torch.zeros(self.out_features, dtype=torch.int64), 0
                )
                self._packed = torch.ops.quantized.linear_prepack(quantized, None)
            finally:
                torch.backends.quantized.engine = previous
        self._multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, in] -> [rows, out]."""
        scale = torch.linalg.vector_norm(x, float("inf"), -1, keepdim=True)
        parts = x.new_empty(2, *x.shape)
        coarse, fine = parts.unbind(0)
        torch.div(x, scale, out=coarse).mul_(_HALF_RANGE_FACTOR)
        torch.round(coarse, out=fine)
        torch.sub(coarse, fine, out=fine).mul_(_FINE_FACTOR)
        y, rest = self._multiply(parts, 1.0, _ZERO_POINT, self._packed).unbind(0)
        # A row of zeros has been divided by zero, and is zero again after this.
        return torch.add(y, rest, alpha=1 / _FINE).mul_(scale)


class Int4Linear:
    """A product with weights of 4 bits and bfloat16 activations, by torch's CPU kernels."""

    def __init__(self, weight: GroupCodes) -> None:
        self.out_features = len(weight.scales)
        self._packed = _pack_int4(weight.codes)
        self._scales = torch.stack((weight.scales, weight.offsets), -1).transpose(0, 1).contiguous()
        self._multiply = torch.ops.aten._weight_int4pack_mm_for_cpu

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, in] -> [rows, out]."""
        y: Tensor = self._multiply(x.bfloat16(), self._packed, GROUP, self._scales)
        return y.float()


def _pack_int4(codes: Tensor) -> Tensor:
    """Return codes int8 [out, in] in the layout of torch's kernel, uint8 [out, in / 2].

    Packs blocks of rows, because torch takes 32-bit integers, eight times the memory of the result.
    """
    packed = torch.empty((codes.shape[0], codes.shape[1] // 2), dtype=torch.uint8)
    for start in range(0, len(codes), _PACK_ROWS):
        block = codes[start : start + _PACK_ROWS].int().add_(8)
        packed[start : start + _PACK_ROWS] = torch.ops.aten._convert_weight_to_int4pack_for_cpu(block, 1)
    return packed


def int8_product(weight: RowCodes) -> LinearLayer:
    """Return the product with a matrix in 8 bits."""
    return Int8Linear(weight) if int8_runs() else Linear(weight.dequantize())


def int4_product(weight: GroupCodes) -> LinearLayer:
    """Return the product with a matrix in 4 bits."""
    return Int4Linear(weight) if int4_runs() else Linear(weight.dequantize())


def int8_linear(weight: Tensor) -> LinearLayer:
    """Quantize a float32 matrix [out, in] to 8 bits."""
    return int8_product(quantize_rows(weight))


def int4_linear(weight: Tensor) -> LinearLayer:
    """Quantize a float32 matrix [out, in] to 4 bits. A matrix whose shape 4 bits do not support stays exact."""
    return int4_product(quantize_groups(weight)) if supports_int4(weight.shape) else Linear(weight)


@cache
def int8_runs() -> bool:
    """Return whether ``Int8Linear`` works with this CPU and this torch. Logs why not."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return _unavailable("8", "torch has no FBGEMM for this CPU")
    codes = quantize_rows(_test_matrix())
    return _multiplies("8", lambda: Int8Linear(codes), codes.dequantize(), tolerance=1e-3)


@cache
def int4_runs() -> bool:
    """Return whether ``Int4Linear`` works with this CPU and this torch. Logs why not."""
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in _VECTORIZED:
        return _unavailable("4", f"torch has no vectorized product for the CPU capability {capability}")
    codes = quantize_groups(_test_matrix())
    return _multiplies("4", lambda: Int4Linear(codes), codes.dequantize(), tolerance=1e-2)


def _test_matrix() -> Tensor:
    return torch.linspace(-1, 1, 16 * 2 * GROUP).sin_().view(16, 2 * GROUP)


def _multiplies(bits: str, build: Callable[[], LinearLayer], weight: Tensor, tolerance: float) -> bool:
    """Return whether a layer gives the product with ``weight``. tolerance: relative to the largest result."""
    x = torch.linspace(-1, 1, 3 * weight.shape[1]).cos_().view(3, -1)
    exact = x @ weight.T
    try:
        error = (build()(x) - exact).abs().max() / exact.abs().max()
    except (RuntimeError, AttributeError, NotImplementedError) as failure:
        return _unavailable(bits, str(failure).partition("\n")[0])
    return bool(error < tolerance) or _unavailable(bits, f"a test product has a relative error of {error:.1g}")


def _unavailable(bits: str, reason: str) -> bool:
    _log.warning("products with weights of %s bits run as products with dequantized weights: %s", bits, reason)
    return False

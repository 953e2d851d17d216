"""A 1-D convolution whose output columns do not depend on the number of columns per call.

oneDNN reorders the weights of a convolution at every call. For one codec frame this costs more than the convolution.
Here the weights are reordered once, into the layout that oneDNN wants at the layer's usual widths. In any other layout
oneDNN would reorder them again at every call, and slowly.

With bfloat16 operands, oneDNN adds in float32 and rounds the result to bfloat16. CPUs with AVX512-BF16 or AMX take half
the time or less for it.

oneDNN also changes the summation order for outputs narrower than 16 columns. So narrow outputs are computed 16 columns
wide. Then the samples of a chunk are bit-identical to those of the whole utterance.
"""

from __future__ import annotations

import platform

import torch
import torch.nn.functional as F
from torch import Tensor

_NARROW = 16
_WIDE = 128


class Conv1d:
    """Valid convolution of x [batch, time, in] with W [out, in / groups, kernel] and b [out] or None, stride 1.

    A column's channels are contiguous in memory, which is oneDNN's order for packed weights. In the other order it
    would transpose its input and output at every call.

    columns: the output's usual width, or a small multiple of it. When oneDNN is available on a CPU, it runs every size.
    The weights are then packed, except for pointwise layers of few columns, whose layout changes with the width.
    Otherwise this is ``torch.nn.functional.conv1d``, the reference implementation.

    dtype: of the operands, float32 or bfloat16 (see ``bfloat16_runs``). Input, bias and output are float32.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        *,
        columns: int,
        dilation: int = 1,
        groups: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.history, self._outputs = (weight.shape[-1] - 1) * dilation, len(weight)
        self._bias, self._dilation, self._groups = bias, dilation, groups
        self._onednn = weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        self._weight, self._dtype = weight.unsqueeze(2).to(dtype), dtype
        # In bfloat16, oneDNN wants another layout of the weights at some widths. So the output is computed in pieces
        # of the width that the weights are packed for.
        self._piece = max(columns, _NARROW) if dtype == torch.bfloat16 else None
        self._packed = self._onednn and (self.history > 0 or columns >= _WIDE)
        if self._packed:
            self._weight = self._pack(max(columns, _NARROW))

    def _pack(self, columns: int) -> Tensor:
        inputs = self._weight.shape[1] * self._groups
        size = [1, inputs, 1, columns + self.history]
        packed: Tensor = torch.ops.aten.mkldnn_reorder_conv2d_weight(
            self._weight.to_mkldnn(), [0, 0], [1, 1], [1, self._dilation], self._groups, size
        )
        return packed

    def __call__(self, x: Tensor) -> Tensor:
        """[batch, time, in] -> [batch, time - history, out]."""
        if not self._onednn:
            channels = x.transpose(1, 2).to(self._dtype).float()
            weight = self._weight.squeeze(2).float()
            y = F.conv1d(channels, weight, self._bias, dilation=self._dilation, groups=self._groups)
            return y.transpose(1, 2)
        width = x.shape[1] - self.history
        if self._piece is None or width <= self._piece:
            return self._run(x).float()
        y = x.new_empty((len(x), width, self._outputs), dtype=torch.float32)
        for start in range(0, width, self._piece):
            y[:, start : start + self._piece] = self._run(x[:, start : start + self._piece + self.history])
        return y

    def _run(self, x: Tensor) -> Tensor:
        width = x.shape[1] - self.history
        if width < _NARROW:
            x = F.pad(x, (0, 0, 0, _NARROW - width))
        y = self._convolve(x.to(self._dtype).transpose(1, 2).unsqueeze(2)).squeeze(2).transpose(1, 2)
        return y[:, :width] if width < _NARROW else y

    def _convolve(self, x: Tensor) -> Tensor:
        geometry = ([0, 0], [1, 1], [1, self._dilation], self._groups)
        if not self._packed:
            return torch.mkldnn_convolution(x.contiguous(), self._weight, self._bias, *geometry)
        x = x.contiguous(memory_format=torch.channels_last)
        y: Tensor = torch.ops.mkldnn._convolution_pointwise(x, self._weight, self._bias, *geometry, "none", [], "")
        return y


def bfloat16_runs() -> bool:
    """Return whether oneDNN runs bfloat16 convolutions on this CPU. It may be slower than float32: measure it.

    On ARM it claims to, but convolutions to one or two channels were wrong there (torch 2.13).
    """
    on_x86 = platform.machine() in ("x86_64", "AMD64")
    return on_x86 and torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

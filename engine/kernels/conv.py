"""A one-dimensional convolution whose columns do not depend on how many are asked for at once.

oneDNN reorders a convolution's weights at every call; for one codec frame that costs more than the convolution. Here
they are reordered once. oneDNN also picks another summation order for outputs narrower than 16 columns, so narrow
outputs are computed 16 wide: then a chunk's samples are bit for bit those of the whole utterance.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_NARROW = 16


class Conv1d:
    """Valid convolution of x [batch, in, time] with W [out, in / groups, kernel] and b [out] or None, stride 1.

    Where oneDNN runs, the weights are packed for it. Elsewhere it is ``torch.nn.functional.conv1d``, its twin.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dilation: int = 1, groups: int = 1) -> None:
        self.history = (weight.shape[-1] - 1) * dilation
        self._bias, self._dilation, self._groups = bias, dilation, groups
        self._packs = weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        self._weight = self._pack(weight) if self._packs else weight

    def _pack(self, weight: Tensor) -> Tensor:
        inputs = weight.shape[1] * self._groups
        typical = [1, inputs, 1, _NARROW + self.history]
        packed: Tensor = torch.ops.aten.mkldnn_reorder_conv2d_weight(
            weight.unsqueeze(2).to_mkldnn(), [0, 0], [1, 1], [1, self._dilation], self._groups, typical
        )
        return packed

    def __call__(self, x: Tensor) -> Tensor:
        """[batch, in, time] -> [batch, out, time - history]."""
        if not self._packs:
            return F.conv1d(x, self._weight, self._bias, dilation=self._dilation, groups=self._groups)
        width = x.shape[-1] - self.history
        narrow = self.history > 0 and width < _NARROW
        if narrow:
            x = F.pad(x, (0, _NARROW - width))
        y: Tensor = torch.ops.mkldnn._convolution_pointwise(
            x.contiguous().unsqueeze(2),
            self._weight,
            self._bias,
            [0, 0],
            [1, 1],
            [1, self._dilation],
            self._groups,
            "none",
            [],
            "",
        ).squeeze(2)
        return y[..., :width] if narrow else y

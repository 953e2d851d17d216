"""The convolutional parts of Code2Wav, each with what it remembers of a stream (SPEC 9)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.conv import Conv1d
from engine.models.stream_state import StateShape, StreamState


class StreamConv:
    """A causal convolution of stride 1: its padding is the end of the chunk before, zeros at first."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dilation: int = 1, groups: int = 1) -> None:
        self._conv = Conv1d(weight, bias, dilation=dilation, groups=groups)
        self.history = self._conv.history
        self.inputs = weight.shape[1] * groups
        self.states = [StateShape((self.inputs, self.history))] if self.history else []

    @staticmethod
    def load(weights: Mapping[str, Tensor], name: str, *, dilation: int = 1, groups: int = 1) -> StreamConv:
        """The convolution stored as ``name``.weight and ``name``.bias."""
        return StreamConv(weights[f"{name}.weight"], weights.get(f"{name}.bias"), dilation=dilation, groups=groups)

    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        """[streams, in, n] -> [streams, out, n]."""
        return self._conv(state.extend(x) if self.history else x)


class Upsample:
    """A transposed convolution with stride r and kernel r or 2r, as a convolution that makes r columns at once.

    Output column t*r + j is W[..., j] x[t] + W[..., j + r] x[t - 1]; the kernel's overhang is never waited for.
    """

    def __init__(self, weight: Tensor, bias: Tensor, rate: int) -> None:
        inputs, outputs, kernel = weight.shape
        taps = weight.view(inputs, outputs, kernel // rate, rate).flip(2)
        self._conv = StreamConv(
            taps.permute(1, 3, 0, 2).reshape(outputs * rate, inputs, -1).contiguous(),
            bias.repeat_interleave(rate),
        )
        self.rate, self.history, self.states = rate, self._conv.history, self._conv.states

    @staticmethod
    def load(weights: Mapping[str, Tensor], name: str, rate: int) -> Upsample:
        """The transposed convolution stored as ``name``.weight [in, out, kernel] and ``name``.bias."""
        return Upsample(weights[f"{name}.weight"], weights[f"{name}.bias"], rate)

    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        """[streams, in, n] -> [streams, out, n * rate]."""
        columns = self._conv(x, state).unflatten(1, (-1, self.rate))
        return columns.transpose(2, 3).flatten(2)


class SnakeBeta:
    """x + sin(x * exp(alpha))^2 / (exp(beta) + 1e-9), per channel (BigVGAN; SPEC 9)."""

    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        self._frequency = weights[f"{name}.alpha"].exp()[:, None]
        self._root_gain = (1.0 / (weights[f"{name}.beta"].exp() + 1e-9)).sqrt()[:, None]

    def __call__(self, x: Tensor) -> Tensor:
        """[streams, channels, n] -> the same."""
        wave = (x * self._frequency).sin_().mul_(self._root_gain)
        return torch.addcmul(x, wave, wave)


class ResidualUnit:
    """x + conv1(snake(conv7(snake(x)))), the 7-tap convolution dilated."""

    def __init__(self, weights: Mapping[str, Tensor], name: str, dilation: int) -> None:
        self._snake1, self._snake2 = SnakeBeta(weights, f"{name}.act1"), SnakeBeta(weights, f"{name}.act2")
        self._conv1 = StreamConv.load(weights, f"{name}.conv1.conv", dilation=dilation)
        self._conv2 = StreamConv.load(weights, f"{name}.conv2.conv")
        self.history, self.states = self._conv1.history, self._conv1.states

    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        """[streams, channels, n] -> the same."""
        return self._conv2(self._snake2(self._conv1(self._snake1(x), state)), state).add_(x)


class ConvNeXt:
    """Depthwise 7-tap convolution, LayerNorm, and a GELU layer four times as wide, scaled, onto the input."""

    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        self._norm = weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"]
        self._gamma = weights[f"{name}.gamma"][:, None]
        channels = len(self._gamma)
        self._depthwise = StreamConv.load(weights, f"{name}.dwconv.conv", groups=channels)
        self._widen = _pointwise(weights, f"{name}.pwconv1")
        self._narrow = _pointwise(weights, f"{name}.pwconv2")
        self.history, self.states = self._depthwise.history, self._depthwise.states

    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        """[streams, channels, n] -> the same."""
        y = self._depthwise(x, state).transpose(1, 2)
        y = F.layer_norm(y, y.shape[-1:], *self._norm, eps=1e-6).transpose(1, 2)
        return torch.addcmul(x, self._narrow(F.gelu(self._widen(y))), self._gamma)


def _pointwise(weights: Mapping[str, Tensor], name: str) -> Conv1d:
    return Conv1d(weights[f"{name}.weight"].unsqueeze(-1), weights[f"{name}.bias"])

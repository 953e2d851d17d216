"""The convolutional blocks of Code2Wav and their state per stream (SPEC 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from engine.kernels.conv import Conv1d
from engine.kernels.linear import Linear
from engine.models.weights import WeightReader, optional

_BLOCK = 1 << 16
"""Values for each thread to activate at once."""


@dataclass(frozen=True)
class StateShape:
    """Shape and dtype of one state tensor of one stream. It is zero when the stream begins."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32


class SnakeBeta:
    """x + sin(x * exp(alpha))^2 / (exp(beta) + 1e-9), per channel (BigVGAN; SPEC 9)."""

    def __init__(self, weights: WeightReader, name: str) -> None:
        self._frequency = weights[f"{name}.alpha"].exp()
        self._root_gain = (1.0 / (weights[f"{name}.beta"].exp() + 1e-9)).sqrt()

    @property
    def frequency_and_gain(self) -> tuple[Tensor, Tensor]:
        """exp(alpha) and 1 / (exp(beta) + 1e-9), [channels] each."""
        return self._frequency, self._root_gain.square()

    def write(self, x: Tensor, out: Tensor) -> Tensor:
        """Write the activation of x [streams, n, channels] to ``out``, of the same shape and any dtype. Returns it.

        On a CPU it goes block by block, so that the intermediate results stay in the CPU cache.
        """
        columns = max(1, _BLOCK * torch.get_num_threads() // (len(x) * x.shape[2])) if x.is_cpu else x.shape[1]
        for block, target in zip(x.split(columns, 1), out.split(columns, 1), strict=True):
            wave = (block * self._frequency).sin_().mul_(self._root_gain)
            target.copy_(torch.addcmul(block, wave, wave, out=wave))
        return out


class StreamState:
    """The state tensors of a batch of streams. Layers read and replace them in the order they run.

    state: one tensor [streams, *shape] per StateShape. next: the state for the next chunk.
    """

    def __init__(self, state: list[Tensor]) -> None:
        self._state = iter(state)
        self.next: list[Tensor] = []

    def extend(self, x: Tensor, dim: int = 1) -> Tensor:
        """Prepend the layer's state to x along ``dim``. The end of the result becomes the next state."""
        history = next(self._state)
        joined = torch.cat((history, x), dim)
        width = history.shape[dim]
        self.next.append(joined.narrow(dim, joined.shape[dim] - width, width))
        return joined

    def extend_columns(self, x: Tensor, dtype: torch.dtype, activation: SnakeBeta | None = None) -> Tensor:
        """As ``extend`` for x [streams, n, channels], in ``dtype`` and after ``activation``."""
        history = next(self._state)
        width = history.shape[1]
        joined = torch.empty((len(x), width + x.shape[1], x.shape[2]), dtype=dtype, device=x.device)
        joined[:, :width] = history
        if activation is None:
            joined[:, width:] = x
        else:
            activation.write(x, joined[:, width:])
        self.next.append(joined[:, x.shape[1] :])
        return joined

    def read(self) -> Tensor:
        """Return a state tensor. The caller appends its successor to ``next``."""
        return next(self._state)

    def advance(self, count: int) -> Tensor:
        """Return the current positions [streams], and advance them by ``count`` for the next chunk."""
        positions = next(self._state)
        self.next.append(positions + count)
        return positions


class Stage(ABC):
    """A step of the decoder: [streams, n, in] -> [streams, n * rate, out].

    history: input columns that it keeps per stream. rate: output columns per input column. states: its state tensors.
    """

    history = 0
    rate = 1
    states: Sequence[StateShape] = ()

    @abstractmethod
    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        """Process the chunk x of a batch of streams, and update ``state``."""


def make_linear(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Linear:
    """Return the product with a float32 matrix.

    With bfloat16 or int16 convolutions its weights are rounded to float16, which halves their memory and the time to
    read them.
    """
    return Linear(weight if dtype == torch.float32 else weight.half().float(), bias)


class StreamConv(Stage):
    """A causal convolution of stride 1. Its padding is the end of the previous chunk; zeros for the first chunk.

    activation: applied to the input first.
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
        activation: SnakeBeta | None = None,
    ) -> None:
        self._conv = Conv1d(weight, bias, columns=columns, dilation=dilation, groups=groups, dtype=dtype)
        self._dtype, self._activation = dtype, activation
        self.history = self._conv.history
        self.inputs = weight.shape[1] * groups
        self.states = [StateShape((self.history, self.inputs), dtype)] if self.history else []

    @staticmethod
    def load(
        weights: WeightReader,
        name: str,
        *,
        columns: int,
        dilation: int = 1,
        groups: int = 1,
        dtype: torch.dtype = torch.float32,
        activation: SnakeBeta | None = None,
    ) -> StreamConv:
        """Load ``name``.weight and ``name``.bias. columns: output columns per frame. dtype: see ``Conv1d``."""
        weight, bias = weights[f"{name}.weight"], optional(weights, f"{name}.bias")
        return StreamConv(
            weight, bias, columns=columns, dilation=dilation, groups=groups, dtype=dtype, activation=activation
        )

    @override
    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        if self.history:
            return self._conv(state.extend_columns(x, self._dtype, self._activation))
        if self._activation is not None:
            x = self._activation.write(x, torch.empty_like(x, dtype=self._dtype))
        return self._conv(x)


class Upsample(Stage):
    """A transposed convolution with stride r and kernel 2r, as a convolution that makes r columns at once.

    Output column t*r + j is W[..., j] x[t] + W[..., j + r] x[t - 1]. No output waits for later input columns.
    columns: input columns per frame. dtype: see ``Conv1d``.
    """

    def __init__(
        self,
        weights: WeightReader,
        name: str,
        *,
        rate: int,
        columns: int,
        dtype: torch.dtype = torch.float32,
        activation: SnakeBeta | None = None,
    ) -> None:
        taps = upsampling_taps(weights[f"{name}.weight"], rate)
        bias = weights[f"{name}.bias"].repeat(rate)
        self._conv = StreamConv(taps, bias, columns=columns, dtype=dtype, activation=activation)
        self.rate, self.history, self.states = rate, self._conv.history, self._conv.states

    @override
    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        return _split(self._conv(x, state), self.rate)


def upsampling_taps(weight: Tensor, rate: int) -> Tensor:
    """Return the weights of ``Upsample``'s convolution, [rate * out, in, 2].

    weight: of the transposed convolution, [in, out, 2 * rate].
    """
    inputs, outputs, _ = weight.shape
    taps = weight.view(inputs, outputs, 2, rate).flip(2).permute(3, 1, 0, 2)
    return taps.reshape(outputs * rate, inputs, 2)


class Repeat(Stage):
    """A transposed convolution with stride r and kernel r: each input column becomes r output columns."""

    def __init__(self, weights: WeightReader, name: str, *, rate: int, dtype: torch.dtype = torch.float32) -> None:
        taps = weights[f"{name}.weight"].permute(2, 1, 0).flatten(0, 1)
        self._linear = make_linear(taps, weights[f"{name}.bias"].repeat(rate), dtype)
        self.rate = rate

    @override
    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        return _split(self._linear(x), self.rate)


def _split(x: Tensor, rate: int) -> Tensor:
    """[streams, n, rate * channels] -> [streams, n * rate, channels]."""
    return x.reshape(len(x), x.shape[1] * rate, -1)


class ResidualUnit(Stage):
    """x + conv1(snake(conv7(snake(x)))). The 7-tap convolution is dilated. dtype: see ``Conv1d``."""

    def __init__(
        self,
        weights: WeightReader,
        name: str,
        *,
        dilation: int,
        columns: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        snake1, snake2 = SnakeBeta(weights, f"{name}.act1"), SnakeBeta(weights, f"{name}.act2")
        self._conv1 = StreamConv.load(
            weights, f"{name}.conv1.conv", columns=columns, dilation=dilation, dtype=dtype, activation=snake1
        )
        self._conv2 = StreamConv.load(weights, f"{name}.conv2.conv", columns=columns, dtype=dtype, activation=snake2)
        self.history, self.states = self._conv1.history, self._conv1.states

    @override
    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        return self._conv2(self._conv1(x, state), state).add_(x)


class ConvNeXt(Stage):
    """Depthwise 7-tap convolution, LayerNorm, and a GELU MLP four times as wide; scaled and added to the input."""

    def __init__(self, weights: WeightReader, name: str, *, columns: int, dtype: torch.dtype = torch.float32) -> None:
        self._norm = weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"]
        self._gamma = weights[f"{name}.gamma"]
        channels = len(self._gamma)
        self._depthwise = StreamConv.load(weights, f"{name}.dwconv.conv", columns=columns, groups=channels)
        self._widen = make_linear(weights[f"{name}.pwconv1.weight"], weights[f"{name}.pwconv1.bias"], dtype)
        self._narrow = make_linear(weights[f"{name}.pwconv2.weight"], weights[f"{name}.pwconv2.bias"], dtype)
        self.history, self.states = self._depthwise.history, self._depthwise.states

    @override
    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        y = self._depthwise(x, state)
        y = F.layer_norm(y, y.shape[-1:], *self._norm, eps=1e-6)
        return torch.addcmul(x, self._narrow(F.gelu(self._widen(y))), self._gamma)

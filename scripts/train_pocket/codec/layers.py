"""Layers of the codec as trainable modules, with the published names (SPEC 8 and 9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import Transformer

_BRANCH_SCALE = 0.1
"""Initial scale of residual branches. The published 0.01 needs a longer training to grow."""


class CausalConv(nn.Module):
    """A convolution that is padded only on the left, with zeros or with the first column.

    It is computed as a 2D convolution of height 1 in the channels-last layout, which is fast on GPUs.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        padding: str = "constant",
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, dilation=dilation, groups=groups, bias=bias)
        self._left, self._padding = (kernel - 1) * dilation + 1 - stride, padding

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, in, n] to [batch, out, n / stride]. n must be a multiple of the stride."""
        image = _image(x)
        if self._left:
            image = F.pad(image, (self._left, 0, 0, 0), mode=self._padding)
        stride, dilation = (1, *self.conv.stride), (1, *self.conv.dilation)
        y = F.conv2d(image, self.conv.weight[:, :, None], self.conv.bias, stride, 0, dilation, self.conv.groups)
        return y.squeeze(2)


class CausalUpsample(nn.Module):
    """A transposed convolution without its overhang on the right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, rate)
        self._rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, in, n] to [batch, out, n * rate]."""
        y = F.conv_transpose2d(_image(x), self.conv.weight[:, :, None], self.conv.bias, (1, self._rate))
        return y.squeeze(2)[..., : x.shape[-1] * self._rate]


def _image(x: Tensor) -> Tensor:
    return x.unsqueeze(2).contiguous(memory_format=torch.channels_last)


class SnakeBeta(nn.Module):
    """x + sin(x * exp(alpha))^2 / exp(beta), per channel (BigVGAN; SPEC 9)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, n] to the same shape."""
        apply: Callable[[Tensor, Tensor, Tensor], Tensor] = _Snake.apply
        return apply(x, self.alpha.exp(), 1 / (self.beta.exp() + 1e-9))


class _Snake(torch.autograd.Function):
    """x + gain * sin(frequency * x)^2. Saves only its inputs for the backward pass."""

    @staticmethod
    def forward(context: Any, x: Tensor, frequency: Tensor, gain: Tensor) -> Tensor:
        context.save_for_backward(x, frequency, gain)
        return _fused(x.is_cuda, _snake)(x, frequency, gain)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, frequency, gain = context.saved_tensors
        gradient_x, gradient_frequency, gradient_gain = _fused(x.is_cuda, _snake_backward)(
            gradients[0], x, frequency, gain
        )
        return gradient_x, gradient_frequency, gradient_gain


def _snake(x: Tensor, frequency: Tensor, gain: Tensor) -> Tensor:
    wave = torch.sin(x.float() * frequency[:, None])
    return (x + wave * wave * gain[:, None]).to(x.dtype)


def _snake_backward(gradient: Tensor, x: Tensor, frequency: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    gradient, wide, turn = gradient.float(), x.float(), frequency[:, None]
    twice = gradient * torch.sin(2 * turn * wide) * gain[:, None]
    wave = torch.sin(turn * wide)
    return (gradient + twice * turn).to(x.dtype), (twice * wide).sum((0, 2)), (gradient * wave * wave).sum((0, 2))


@cache
def _fused(cuda: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the function to one kernel on a GPU. This takes seconds; compiling the whole codec takes minutes."""
    return torch.compile(function, dynamic=True) if cuda else function


class ResidualUnit(nn.Module):
    """x + conv1(snake(conv7(snake(x)))), with a dilated 7-tap convolution."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.act1, self.act2 = SnakeBeta(channels), SnakeBeta(channels)
        self.conv1 = CausalConv(channels, channels, 7, dilation=dilation)
        self.conv2 = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, n] to the same shape."""
        return x + self.conv2(self.act2(self.conv1(self.act1(x))))


class ConvNeXt(nn.Module):
    """x + scale * mlp(norm(conv(x))), with a depthwise 7-tap convolution and an MLP four times as wide."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), _BRANCH_SCALE))

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, n] to the same shape."""
        y = self.norm(self.dwconv(x).transpose(1, 2))
        return x + (self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))).transpose(1, 2)


class LayerScale(nn.Module):
    """A learned factor for each channel of a residual branch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((channels,), _BRANCH_SCALE))

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., channels] to the same shape."""
        return x * self.scale


class Attention(nn.Module):
    """Causal attention with rotary position embeddings (half rotation), without biases."""

    def __init__(self, hidden: int, heads: int, head_dim: int, theta: float) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, heads * head_dim, bias=False) for _ in range(3))
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)
        self._head_dim, self._theta = head_dim, theta

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, n, hidden] to the same shape."""
        query, key, value = (
            project(x).unflatten(-1, (-1, self._head_dim)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = self._angles(x.shape[1], x.device)
        mixed = F.scaled_dot_product_attention(_rotate(query, cos, sin), _rotate(key, cos, sin), value, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _angles(self, positions: int, device: torch.device) -> tuple[Tensor, Tensor]:
        exponents = torch.arange(0, self._head_dim, 2, device=device).float() / self._head_dim
        angles = torch.outer(torch.arange(positions, device=device).float(), 1.0 / self._theta**exponents)
        angles = torch.cat((angles, angles), -1)
        return angles.cos(), angles.sin()


class TransformerLayer(nn.Module):
    """A pre-norm layer with attention and ``mlp``, each with a layer scale. norm: a class of norms (width, eps)."""

    def __init__(self, sizes: Transformer, norm: Callable[[int, float], nn.Module], mlp: nn.Module) -> None:
        super().__init__()
        self.input_layernorm = norm(sizes.hidden, sizes.eps)
        self.self_attn = Attention(sizes.hidden, sizes.heads, sizes.head_dim, sizes.rope_theta)
        self.self_attn_layer_scale = LayerScale(sizes.hidden)
        self.post_attention_layernorm = norm(sizes.hidden, sizes.eps)
        self.mlp = mlp
        self.mlp_layer_scale = LayerScale(sizes.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, n, hidden] to the same shape."""
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x)))
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return (x * cos + torch.cat((-right, left), -1) * sin).to(x.dtype)

"""Code2Wav's transformer over codec frames: causal attention in a sliding window (SPEC 9)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.architecture import DecoderArchitecture, Transformer
from engine.kernels.linear import Linear
from engine.models.layers import RMSNorm
from engine.models.stream_state import StateShape, StreamState


class CodecTransformer:
    """Projection in, the layers, the final norm, projection out.

    It remembers how many frames each stream has had, and the rotated keys and values of the last window - 1.
    """

    def __init__(self, weights: Mapping[str, Tensor], architecture: DecoderArchitecture, device: torch.device) -> None:
        shape = architecture.transformer
        name = "pre_transformer"
        self._window = architecture.sliding_window
        self._input = _linear(weights, f"{name}.input_proj")
        self._layers = [_Layer(weights, f"{name}.layers.{index}", shape, self._window) for index in range(shape.layers)]
        self._norm = RMSNorm(weights[f"{name}.norm.weight"], shape.eps)
        self._output = _linear(weights, f"{name}.output_proj")
        exponents = torch.arange(0, shape.head_dim, 2, device=device, dtype=torch.int64).float()
        self._frequencies = 1.0 / shape.rope_theta ** (exponents / shape.head_dim)
        self._keys = torch.arange(self._window, device=device)
        past = (shape.heads, self._window - 1, shape.head_dim)
        self.states = [StateShape((), torch.int64)] + [StateShape(past), StateShape(past)] * shape.layers

    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        """[streams, n, latent] -> the same."""
        positions = state.advance(x.shape[1])[:, None] + torch.arange(x.shape[1], device=x.device)
        rotation = self._rotation(positions)
        mask = self._mask(positions)
        x = self._input(x)
        for layer in self._layers:
            x = layer(x, rotation, mask, state)
        return self._output(self._norm(x))

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin [streams, 1, n, head_dim]; positions keep counting, so they are not tabulated."""
        angles = positions[:, None, :, None].float() * self._frequencies
        return torch.cat((angles.cos(), angles.cos()), -1), torch.cat((-angles.sin(), angles.sin()), -1)

    def _mask(self, positions: Tensor) -> Tensor:
        """[streams, 1, n, 1, window]: -inf where a window reaches back before the stream began."""
        before = self._keys < self._window - 1 - positions[..., None]
        zeros = torch.zeros(before.shape, device=positions.device)
        return zeros.masked_fill_(before, float("-inf"))[:, None, :, None]


class _Layer:
    def __init__(self, weights: Mapping[str, Tensor], name: str, shape: Transformer, window: int) -> None:
        self._heads, self._window = shape.heads, window
        self._half = shape.head_dim // 2
        self._scale = shape.head_dim**-0.5
        self._input_norm = RMSNorm(weights[f"{name}.input_layernorm.weight"], shape.eps)
        self._post_norm = RMSNorm(weights[f"{name}.post_attention_layernorm.weight"], shape.eps)
        self._qkv = _fused(weights, [f"{name}.self_attn.{part}_proj" for part in "qkv"])
        self._out = _linear(weights, f"{name}.self_attn.o_proj")
        self._gate_up = _fused(weights, [f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"])
        self._down = _linear(weights, f"{name}.mlp.down_proj")
        self._attention_scale = weights[f"{name}.self_attn_layer_scale.scale"]
        self._mlp_scale = weights[f"{name}.mlp_layer_scale.scale"]

    def __call__(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor, state: StreamState) -> Tensor:
        """[streams, n, hidden] -> the same."""
        mixed = self._attend(self._input_norm(x), rotation, mask, state)
        x = torch.addcmul(x, self._out(mixed), self._attention_scale)
        gate, up = self._gate_up(self._post_norm(x)).chunk(2, -1)
        return torch.addcmul(x, self._down(F.silu(gate) * up), self._mlp_scale)

    def _attend(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor, state: StreamState) -> Tensor:
        """Every query has its own window of exactly ``window`` keys, so its sum does not depend on the chunk.

        The windows are copied out because a product's order of summation depends on its operands' strides.
        """
        query, key, value = self._qkv(x).unflatten(2, (3, self._heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        query, key = self._rotate(query, rotation), self._rotate(key, rotation)
        keys = state.extend(key, -2).unfold(-2, self._window, 1).contiguous()
        values = state.extend(value, -2).unfold(-2, self._window, 1).transpose(-1, -2).contiguous()
        scores = torch.matmul(query.unsqueeze(-2) * self._scale, keys).add_(mask)
        mixed = torch.matmul(torch.softmax(scores, -1), values).squeeze(-2)
        return mixed.transpose(1, 2).flatten(2)

    def _rotate(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        return torch.addcmul(x * rotation[0], x.roll(self._half, -1), rotation[1])


def _linear(weights: Mapping[str, Tensor], name: str) -> Linear:
    return Linear(weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def _fused(weights: Mapping[str, Tensor], names: list[str]) -> Linear:
    return Linear(torch.cat([weights[f"{name}.weight"] for name in names]))

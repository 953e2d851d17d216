"""The speech encoder: maps a recording to codec frames (Mimi's encoder; SPEC 8). Always float32."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.checkpoint.architecture import SpeechEncoderArchitecture, Transformer
from engine.models.qwen3 import Rotary
from engine.models.ragged import FullLengths, Padding, RaggedLengths, RowLengths

QUANTIZER_PREFIX = "quantizer."


class SpeechQuantizer:
    """Residual vector quantizer: maps latents to codes.

    The semantic and the acoustic codebooks both quantize the latent, each after a separate projection. Codebooks
    beyond ``valid_quantizers`` are not loaded.

    tensors: the speech encoder's tensors whose names begin with ``QUANTIZER_PREFIX``; others are ignored.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: SpeechEncoderArchitecture, *, device: torch.device
    ) -> None:
        semantic = architecture.semantic_quantizers
        counts = {"semantic": semantic, "acoustic": architecture.valid_quantizers - semantic}
        self._groups = [_ResidualCodebooks(tensors, group, codebooks, device) for group, codebooks in counts.items()]

    def __call__(self, latents: Tensor) -> Tensor:
        """Map latents, float32 [n, hidden], to codes, int64 [n, books]."""
        return torch.cat([group(latents) for group in self._groups], 1)


class _ResidualCodebooks:
    def __init__(self, tensors: Mapping[str, Tensor], group: str, codebooks: int, device: torch.device) -> None:
        name = f"{QUANTIZER_PREFIX}{group}_residual_vector_quantizer"
        self._projection = tensors[f"{name}.input_proj.weight"].to(device, torch.float32).squeeze(-1)
        self._codebooks = [_vectors(tensors, f"{name}.layers.{index}.codebook", device) for index in range(codebooks)]

    def __call__(self, latents: Tensor) -> Tensor:
        """Return the nearest vector of each codebook to the residual of the codebooks before it: [n, books]."""
        residual = latents @ self._projection.T
        codes = []
        for vectors in self._codebooks:
            nearest = torch.cdist(residual[None], vectors[None])[0].argmin(-1)
            residual = residual - vectors[nearest]
            codes.append(nearest)
        return torch.stack(codes, 1)


def _vectors(tensors: Mapping[str, Tensor], name: str, device: torch.device) -> Tensor:
    """Return a codebook's vectors [size, width]: each vector's sum divided by its usage count."""
    usage = tensors[f"{name}.cluster_usage"].to(device, torch.float32).clamp(min=1e-5)
    return tensors[f"{name}.embed_sum"].to(device, torch.float32) / usage[:, None]


_CACHED_POSITIONS = 750
"""Transformer positions in 30 s of audio. For longer recordings, the rotary table is computed per call."""


class SpeechEncoder:
    """Encodes whole recordings. tensors: from speech_tokenizer/model.safetensors, without the first ``encoder.``."""

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: SpeechEncoderArchitecture, *, device: torch.device
    ) -> None:
        self.architecture, self.device = architecture, device
        self._tensors = {
            name: tensor.to(device, torch.float32)
            for name, tensor in tensors.items()
            if not name.startswith(QUANTIZER_PREFIX)
        }
        self._quantize = SpeechQuantizer(tensors, architecture, device=device)
        self._cached_rotary = self._make_rotary(_CACHED_POSITIONS)

    def __call__(self, samples: Tensor) -> Tensor:
        """Map mono float32 samples [n] at 24 kHz to codes, int64 [ceil(n / 1920), 16]."""
        return self._quantize(self.latents(samples))

    def latents(self, samples: Tensor) -> Tensor:
        """Return the vectors before quantization, float32 [frames, hidden]."""
        return self._latents(samples.to(self.device)[None], FullLengths())[0].T

    def batch(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Map recordings [rows, n] to codes [rows, frames, 16]. lengths: samples per row, int64 [rows].

        Both arguments are on the device. A row's first ceil(length / 1920) frames equal those of the recording alone,
        except for summation order. Ignore the frames after them. No operation synchronizes with the device, so a CUDA
        graph can capture the call.
        """
        latents = self._latents(samples, RaggedLengths(lengths)).transpose(1, 2)
        return self._quantize(latents.flatten(0, 1)).unflatten(0, latents.shape[:2])

    def _latents(self, samples: Tensor, lengths: RowLengths) -> Tensor:
        """Map samples [rows, n] to latents [rows, hidden, frames]."""
        x, lengths = self._convolve(samples[:, None], lengths)
        x = self._transform(x.transpose(1, 2)).transpose(1, 2)
        return self._conv(x, lengths, "downsample.conv", stride=2, padding="replicate")

    def _convolve(self, x: Tensor, lengths: RowLengths) -> tuple[Tensor, RowLengths]:
        """SEANet: map samples [rows, 1, n] to [rows, hidden, n / (product of ratios)], and return the new lengths."""
        x = self._conv(x, lengths, "encoder.layers.0.conv")
        layer = 1
        for ratio in reversed(self.architecture.ratios):
            narrow = self._conv(F.elu(x), lengths, f"encoder.layers.{layer}.block.1.conv")
            x = x.add_(self._conv(F.elu_(narrow), lengths, f"encoder.layers.{layer}.block.3.conv"))
            x = self._conv(F.elu_(x), lengths, f"encoder.layers.{layer + 2}.conv", stride=ratio)
            lengths = lengths.map(partial(_window_count, stride=ratio))
            layer += 3
        return self._conv(F.elu_(x), lengths, f"encoder.layers.{layer + 1}.conv"), lengths

    def _conv(
        self, x: Tensor, lengths: RowLengths, name: str, stride: int = 1, padding: Padding = "constant"
    ) -> Tensor:
        """Causal convolution: pads on the left, and on the right only to complete the last window."""
        weight = self._tensors[f"{name}.weight"]
        left = weight.shape[-1] - stride
        right = -x.shape[-1] % stride
        if left or right:
            x = lengths.pad(x, left, right, padding)
        return F.conv1d(x, weight, self._tensors.get(f"{name}.bias"), stride=stride)

    def _transform(self, x: Tensor) -> Tensor:
        """Run the transformer on [rows, n, hidden]. Causal, without a sliding window."""
        shape = self.architecture.transformer
        positions = x.shape[1]
        rotary = self._cached_rotary if positions <= _CACHED_POSITIONS else self._make_rotary(positions)
        for layer in range(shape.layers):
            x = self._layer(x, f"encoder_transformer.layers.{layer}", shape, rotary)
        return x

    def _make_rotary(self, positions: int) -> Rotary:
        shape = self.architecture.transformer
        return Rotary(shape.head_dim, shape.rope_theta, positions, self.device, torch.float32)

    def _layer(self, x: Tensor, name: str, shape: Transformer, rotary: Rotary) -> Tensor:
        mixed = self._attend(self._norm(x, f"{name}.input_layernorm"), f"{name}.self_attn", shape, rotary)
        x = x + mixed * self._tensors[f"{name}.self_attn_layer_scale.scale"]
        hidden = F.gelu(self._linear(self._norm(x, f"{name}.post_attention_layernorm"), f"{name}.mlp.fc1"))
        return x + self._linear(hidden, f"{name}.mlp.fc2") * self._tensors[f"{name}.mlp_layer_scale.scale"]

    def _attend(self, x: Tensor, name: str, shape: Transformer, rotary: Rotary) -> Tensor:
        query, key, value = (
            self._linear(x, f"{name}.{part}_proj").unflatten(-1, (-1, shape.head_dim)) for part in "qkv"
        )
        cos, sin = rotary.at(slice(0, x.shape[1]))
        query, key = rotary.rotate(query, cos, sin), rotary.rotate(key, cos, sin)
        mixed = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True
        )
        return self._linear(mixed.transpose(1, 2).flatten(2), f"{name}.o_proj")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.architecture.transformer.eps)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self._tensors[f"{name}.weight"])


def _window_count(columns: Tensor, stride: int) -> Tensor:
    """Return the number of windows of a convolution over ``columns`` columns; the last window may be padded."""
    return (columns + stride - 1) // stride

"""The speech encoder: a recording in, codec frames out (Mimi's encoder; SPEC 8). Always float32."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.architecture import SpeechEncoderArchitecture, Transformer
from engine.models.layers import Rotary


class SpeechEncoder:
    """Whole recordings, one at a time: in a padded batch the shorter one's last frame could differ.

    tensors: of speech_tokenizer/model.safetensors, without their first ``encoder.``.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: SpeechEncoderArchitecture, *, device: torch.device
    ) -> None:
        self.architecture, self.device = architecture, device
        self._tensors = {name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}

    def __call__(self, samples: Tensor) -> Tensor:
        """Mono float32 samples [n] at 24 kHz -> codes int64 [ceil(n / 1920), 16]."""
        return self._quantize(self.latents(samples))

    def latents(self, samples: Tensor) -> Tensor:
        """The vectors that are quantised, float32 [frames, hidden]."""
        x = self._convolve(samples.to(self.device)[None, None])
        x = self._transform(x[0].T).T[None]
        return self._conv(x, "downsample.conv", stride=2, padding="replicate")[0].T

    def _convolve(self, x: Tensor) -> Tensor:
        """SEANet: samples [1, 1, n] -> [1, hidden, n / (product of ratios)]."""
        x = self._conv(x, "encoder.layers.0.conv")
        layer = 1
        for ratio in reversed(self.architecture.ratios):
            narrow = self._conv(F.elu(x), f"encoder.layers.{layer}.block.1.conv")
            x = x + self._conv(F.elu(narrow), f"encoder.layers.{layer}.block.3.conv")
            x = self._conv(F.elu(x), f"encoder.layers.{layer + 2}.conv", stride=ratio)
            layer += 3
        return self._conv(F.elu(x), f"encoder.layers.{layer + 1}.conv")

    def _conv(self, x: Tensor, name: str, stride: int = 1, padding: str = "constant") -> Tensor:
        """Causal: padded on the left, and on the right only until the last window is full."""
        weight = self._tensors[f"{name}.weight"]
        left = weight.shape[-1] - stride
        windows = ceil((x.shape[-1] - stride) / stride) + 1
        right = windows * stride - x.shape[-1]
        x = F.pad(x, (left, right), mode=padding)
        return F.conv1d(x, weight, self._tensors.get(f"{name}.bias"), stride=stride)

    def _transform(self, x: Tensor) -> Tensor:
        """The transformer, [n, hidden] -> the same; every position sees all before it, without a window."""
        shape = self.architecture.transformer
        rotary = Rotary(shape.head_dim, shape.rope_theta, len(x), self.device, torch.float32)
        for layer in range(shape.layers):
            x = self._layer(x, f"encoder_transformer.layers.{layer}", shape, rotary)
        return x

    def _layer(self, x: Tensor, name: str, shape: Transformer, rotary: Rotary) -> Tensor:
        mixed = self._attend(self._norm(x, f"{name}.input_layernorm"), f"{name}.self_attn", shape, rotary)
        x = x + mixed * self._tensors[f"{name}.self_attn_layer_scale.scale"]
        wide = F.gelu(self._linear(self._norm(x, f"{name}.post_attention_layernorm"), f"{name}.mlp.fc1"))
        return x + self._linear(wide, f"{name}.mlp.fc2") * self._tensors[f"{name}.mlp_layer_scale.scale"]

    def _attend(self, x: Tensor, name: str, shape: Transformer, rotary: Rotary) -> Tensor:
        query, key, value = (
            self._linear(x, f"{name}.{part}_proj").unflatten(-1, (-1, shape.head_dim)) for part in "qkv"
        )
        cos, sin = rotary.at(slice(0, len(x)))
        query, key = rotary.rotate(query, cos, sin), rotary.rotate(key, cos, sin)
        mixed = F.scaled_dot_product_attention(
            query.transpose(0, 1)[None], key.transpose(0, 1)[None], value.transpose(0, 1)[None], is_causal=True
        )
        return self._linear(mixed[0].transpose(0, 1).flatten(1), f"{name}.o_proj")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.architecture.transformer.eps)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self._tensors[f"{name}.weight"])

    def _quantize(self, latents: Tensor) -> Tensor:
        """Semantic and acoustic books both start from the latent, each with a projection of its own."""
        semantic = self.architecture.semantic_quantizers
        acoustic = self.architecture.valid_quantizers - semantic
        return torch.cat(
            (
                self._residual_codes(latents, "semantic", semantic),
                self._residual_codes(latents, "acoustic", acoustic),
            ),
            1,
        )

    def _residual_codes(self, latents: Tensor, kind: str, books: int) -> Tensor:
        """Nearest vectors book by book, each of what the books before left over: [frames, books]."""
        name = f"quantizer.{kind}_residual_vector_quantizer"
        rest = latents @ self._tensors[f"{name}.input_proj.weight"].squeeze(-1).T
        codes = []
        for book in range(books):
            vectors = self._codebook(f"{name}.layers.{book}.codebook")
            nearest = torch.cdist(rest[None], vectors[None])[0].argmin(-1)
            rest = rest - vectors[nearest]
            codes.append(nearest)
        return torch.stack(codes, 1)

    def _codebook(self, name: str) -> Tensor:
        usage = self._tensors[f"{name}.cluster_usage"].clamp(min=1e-5)
        return self._tensors[f"{name}.embed_sum"] / usage[:, None]

"""Code2Wav as a trainable module: quantized vectors to samples (SPEC 9)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import DecoderArchitecture, Transformer
from scripts.train_pocket.codec.layers import (
    CausalConv,
    CausalUpsample,
    ConvNeXt,
    ResidualUnit,
    SnakeBeta,
    TransformerLayer,
)

_DILATIONS = (1, 3, 9)


class _MLP(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class _Transformer(nn.Module):
    """A causal transformer. Inputs must not be longer than the sliding window, so it is not needed."""

    def __init__(self, sizes: Transformer, latent: int) -> None:
        super().__init__()
        self.input_proj, self.output_proj = nn.Linear(latent, sizes.hidden), nn.Linear(sizes.hidden, latent)
        self.layers = nn.ModuleList(
            TransformerLayer(sizes, nn.RMSNorm, _MLP(sizes.hidden, sizes.intermediate)) for _ in range(sizes.layers)
        )
        self.norm = nn.RMSNorm(sizes.hidden, sizes.eps)

    def forward(self, x: Tensor) -> Tensor:
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x)
        return self.output_proj(self.norm(x))


class _Block(nn.Module):
    def __init__(self, width: int, rate: int) -> None:
        super().__init__()
        units = [ResidualUnit(width // 2, dilation) for dilation in _DILATIONS]
        self.block = nn.Sequential(SnakeBeta(width), CausalUpsample(width, width // 2, 2 * rate, rate), *units)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


class Code2Wav(nn.Module):
    """The decoder, which follows the quantizer."""

    def __init__(self, sizes: DecoderArchitecture) -> None:
        super().__init__()
        self._window = sizes.sliding_window
        self.pre_conv = CausalConv(sizes.codebook_dim, sizes.latent, 3)
        self.pre_transformer = _Transformer(sizes.transformer, sizes.latent)
        self.upsample = nn.ModuleList(
            nn.Sequential(CausalUpsample(sizes.latent, sizes.latent, ratio, ratio), ConvNeXt(sizes.latent))
            for ratio in sizes.upsampling_ratios
        )
        self.decoder = nn.Sequential(*_waveform(sizes))

    def latents(self, quantized: Tensor) -> Tensor:
        """Map [batch, frames, codebook_dim] to [batch, latent, frames]. Raises ValueError beyond the sliding window."""
        if quantized.shape[1] > self._window:
            raise ValueError(f"frames must be at most {self._window}, the sliding window, got {quantized.shape[1]}")
        x = self.pre_conv(quantized.transpose(1, 2))
        return self.pre_transformer(x.transpose(1, 2)).transpose(1, 2)

    def samples(self, latents: Tensor) -> Tensor:
        """Map [batch, latent, frames] to samples [batch, frames * 1920], which are not clamped."""
        for upsample in self.upsample:
            latents = upsample(latents)
        return self.decoder(latents).squeeze(1)


def _waveform(sizes: DecoderArchitecture) -> list[nn.Module]:
    width = sizes.decoder_dim
    modules: list[nn.Module] = [CausalConv(sizes.latent, width, 7)]
    for rate in sizes.upsample_rates:
        modules.append(_Block(width, rate))
        width //= 2
    return [*modules, SnakeBeta(width), CausalConv(width, 1, 7)]

"""The speech encoder, which maps samples to latents: Mimi's with small sizes (Défossez et al. 2024; SPEC 8)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import SpeechEncoderArchitecture, Transformer
from scripts.train_pocket.codec.layers import CausalConv, TransformerLayer


class _Residual(nn.Module):
    """A residual bottleneck of two convolutions. Their indices in ``block`` count the activations, too."""

    def __init__(self, width: int, narrow: int, kernel: int) -> None:
        super().__init__()
        self.block = nn.ModuleDict({"1": CausalConv(width, narrow, kernel), "3": CausalConv(narrow, width, 1)})

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block["3"](F.elu(self.block["1"](F.elu(x))))


class _SEANet(nn.Module):
    def __init__(self, sizes: SpeechEncoderArchitecture) -> None:
        super().__init__()
        width = sizes.filters
        self.layers = nn.ModuleDict({"0": CausalConv(1, width, sizes.kernel)})
        self._steps: list[tuple[str, str]] = []
        layer = 1
        for ratio in reversed(sizes.ratios):
            residual, down = str(layer), str(layer + 2)
            self.layers[residual] = _Residual(width, width // sizes.compress, sizes.residual_kernel)
            self.layers[down] = CausalConv(width, 2 * width, 2 * ratio, stride=ratio)
            self._steps.append((residual, down))
            layer, width = layer + 3, 2 * width
        self._last = str(layer + 1)
        self.layers[self._last] = CausalConv(width, sizes.transformer.hidden, sizes.last_kernel)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers["0"](x)
        for residual, down in self._steps:
            x = self.layers[down](F.elu(self.layers[residual](x)))
        return self.layers[self._last](F.elu(x))


class _MLP(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(hidden, inner, bias=False), nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class _Transformer(nn.Module):
    def __init__(self, sizes: Transformer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TransformerLayer(sizes, nn.LayerNorm, _MLP(sizes.hidden, sizes.intermediate)) for _ in range(sizes.layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class SpeechEncoder(nn.Module):
    """The speech encoder. It is causal: samples do not affect earlier latents."""

    def __init__(self, sizes: SpeechEncoderArchitecture) -> None:
        super().__init__()
        hidden = sizes.transformer.hidden
        self.encoder = _SEANet(sizes)
        self.encoder_transformer = _Transformer(sizes.transformer)
        self.downsample = CausalConv(hidden, hidden, 4, stride=2, bias=False, padding="replicate")

    def forward(self, samples: Tensor) -> Tensor:
        """Map samples [batch, frames * 1920] at 24 kHz to latents [batch, frames, hidden]."""
        x = self.encoder(samples[:, None])
        x = self.encoder_transformer(x.transpose(1, 2)).transpose(1, 2)
        return self.downsample(x).transpose(1, 2)

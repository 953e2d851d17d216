"""Discriminators of waveforms: by period (HiFi-GAN, Kong et al. 2020) and by spectrogram (UnivNet, EnCodec)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

_PERIODS = (2, 3, 5, 7, 11)
_RESOLUTIONS = (2048, 1024, 512)
_SLOPE = 0.1

DiscriminatorOutput = tuple[Tensor, list[Tensor]]
"""Scores of any shape, and the features of all layers."""


class _Stack(nn.Module):
    """A stack of convolutions that returns its features and the scores of the last one."""

    def __init__(self, convs: list[nn.Conv2d], last: nn.Conv2d) -> None:
        super().__init__()
        self.convs = nn.ModuleList(weight_norm(conv) for conv in convs)
        self.last = weight_norm(last)

    def forward(self, x: Tensor) -> DiscriminatorOutput:
        features = []
        x = x.contiguous(memory_format=torch.channels_last)
        for conv in self.convs:
            x = F.leaky_relu(conv(x), _SLOPE)
            features.append(x)
        return self.last(x), features


class PeriodDiscriminator(nn.Module):
    """Judges samples that are ``period`` apart."""

    def __init__(self, period: int, widths: tuple[int, ...] = (32, 64, 128, 256, 256)) -> None:
        super().__init__()
        self._period = period
        inputs = (1, *widths[:-1])
        convs = [
            nn.Conv2d(i, o, (5, 1), (3 if index + 1 < len(widths) else 1, 1), (2, 0))
            for index, (i, o) in enumerate(zip(inputs, widths, strict=True))
        ]
        self.stack = _Stack(convs, nn.Conv2d(widths[-1], 1, (3, 1), 1, (1, 0)))

    def forward(self, samples: Tensor) -> DiscriminatorOutput:
        """Judge samples [batch, n]."""
        samples = F.pad(samples, (0, -samples.shape[-1] % self._period))
        verdict: DiscriminatorOutput = self.stack(samples.unflatten(-1, (-1, self._period))[:, None])
        return verdict


class SpectrumDiscriminator(nn.Module):
    """Judges the complex spectrogram."""

    _window: Tensor

    def __init__(self, size: int, width: int = 32) -> None:
        super().__init__()
        self._size = size
        self.register_buffer("_window", torch.hann_window(size), persistent=False)
        convs = [nn.Conv2d(2, width, (3, 9), padding=(1, 4))]
        convs += [nn.Conv2d(width, width, (3, 9), (1, 2), (1, 4)) for _ in range(3)]
        convs += [nn.Conv2d(width, width, (3, 3), padding=(1, 1))]
        self.stack = _Stack(convs, nn.Conv2d(width, 1, (3, 3), padding=(1, 1)))

    def forward(self, samples: Tensor) -> DiscriminatorOutput:
        """Judge samples [batch, n]."""
        with torch.autocast(samples.device.type, enabled=False):
            spectrum = torch.stft(
                samples.float(), self._size, self._size // 4, window=self._window, center=True, return_complex=True
            )
            image = torch.view_as_real(spectrum).permute(0, 3, 2, 1).contiguous() * (8 / self._size**0.5)
        verdict: DiscriminatorOutput = self.stack(image)
        return verdict


class Discriminators(nn.Module):
    """All discriminators."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList([PeriodDiscriminator(period) for period in _PERIODS])
        self.members.extend(SpectrumDiscriminator(size) for size in _RESOLUTIONS)

    def forward(self, samples: Tensor) -> list[DiscriminatorOutput]:
        """Judge samples [batch, n]."""
        return [member(samples) for member in self.members]


def discriminator_loss(outputs: list[DiscriminatorOutput]) -> Tensor:
    """Return the least-squares loss (LSGAN, Mao et al. 2017). outputs: of real samples, then of generated ones."""
    terms = []
    for scores, _ in outputs:
        real, generated = scores.chunk(2)
        terms.append((real - 1).square().mean() + generated.square().mean())
    return torch.stack(terms).mean().float()


def adversarial_loss(generated: list[DiscriminatorOutput]) -> Tensor:
    """Return the generator's loss: how far the scores of generated samples are from those of real ones."""
    return torch.stack([(scores - 1).square().mean() for scores, _ in generated]).mean().float()


def feature_loss(real: list[DiscriminatorOutput], generated: list[DiscriminatorOutput]) -> Tensor:
    """Return the relative distance of the discriminators' features (EnCodec, Défossez et al. 2022)."""
    pairs = zip(real, generated, strict=True)
    distances = [
        _distance(r, m)
        for (_, real_features), (_, generated_features) in pairs
        for r, m in zip(real_features, generated_features, strict=True)
    ]
    return torch.stack(distances).mean().float()


def _distance(real: Tensor, generated: Tensor) -> Tensor:
    return (real - generated).abs().mean() / (real.abs().mean() + 1e-5)

"""Critics of waveforms: by period (HiFi-GAN, Kong et al. 2020) and by spectrogram (UnivNet, EnCodec)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

_PERIODS = (2, 3, 5, 7, 11)
_RESOLUTIONS = (2048, 1024, 512)
_SLOPE = 0.1

Verdict = tuple[Tensor, list[Tensor]]
"""(scores of any shape, the layers' features)."""


class _Stack(nn.Module):
    """Convolutions with features kept, and the last one's scores."""

    def __init__(self, convs: list[nn.Conv2d], last: nn.Conv2d) -> None:
        super().__init__()
        self.convs = nn.ModuleList(weight_norm(conv) for conv in convs)
        self.last = weight_norm(last)

    def forward(self, x: Tensor) -> Verdict:
        features = []
        x = x.contiguous(memory_format=torch.channels_last)
        for conv in self.convs:
            x = F.leaky_relu(conv(x), _SLOPE)
            features.append(x)
        return self.last(x), features


class PeriodCritic(nn.Module):
    """Looks at every ``period``-th sample by itself."""

    def __init__(self, period: int, widths: tuple[int, ...] = (32, 64, 128, 256, 256)) -> None:
        super().__init__()
        self._period = period
        inputs = (1, *widths[:-1])
        convs = [
            nn.Conv2d(i, o, (5, 1), (3 if index + 1 < len(widths) else 1, 1), (2, 0))
            for index, (i, o) in enumerate(zip(inputs, widths, strict=True))
        ]
        self.stack = _Stack(convs, nn.Conv2d(widths[-1], 1, (3, 1), 1, (1, 0)))

    def forward(self, samples: Tensor) -> Verdict:
        """Samples [batch, n]."""
        samples = F.pad(samples, (0, -samples.shape[-1] % self._period))
        verdict: Verdict = self.stack(samples.unflatten(-1, (-1, self._period))[:, None])
        return verdict


class SpectrumCritic(nn.Module):
    """Looks at the complex spectrogram."""

    _window: Tensor

    def __init__(self, size: int, width: int = 32) -> None:
        super().__init__()
        self._size = size
        self.register_buffer("_window", torch.hann_window(size), persistent=False)
        convs = [nn.Conv2d(2, width, (3, 9), padding=(1, 4))]
        convs += [nn.Conv2d(width, width, (3, 9), (1, 2), (1, 4)) for _ in range(3)]
        convs += [nn.Conv2d(width, width, (3, 3), padding=(1, 1))]
        self.stack = _Stack(convs, nn.Conv2d(width, 1, (3, 3), padding=(1, 1)))

    def forward(self, samples: Tensor) -> Verdict:
        """Samples [batch, n]."""
        with torch.autocast(samples.device.type, enabled=False):
            spectrum = torch.stft(
                samples.float(), self._size, self._size // 4, window=self._window, center=True, return_complex=True
            )
            image = torch.view_as_real(spectrum).permute(0, 3, 2, 1).contiguous() * (8 / self._size**0.5)
        verdict: Verdict = self.stack(image)
        return verdict


class Critics(nn.Module):
    """All of them."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList([PeriodCritic(period) for period in _PERIODS])
        self.members.extend(SpectrumCritic(size) for size in _RESOLUTIONS)

    def forward(self, samples: Tensor) -> list[Verdict]:
        """Samples [batch, n]."""
        return [member(samples) for member in self.members]


def critics_loss(both: list[Verdict]) -> Tensor:
    """Least squares (LSGAN, Mao et al. 2017). both: on real samples and, after them, as many made ones."""
    terms = []
    for scores, _ in both:
        real, made = scores.chunk(2)
        terms.append((real - 1).square().mean() + made.square().mean())
    return torch.stack(terms).mean().float()


def deceit_loss(made: list[Verdict]) -> Tensor:
    """How far the critics are from taking the made samples for real."""
    return torch.stack([(scores - 1).square().mean() for scores, _ in made]).mean().float()


def feature_loss(real: list[Verdict], made: list[Verdict]) -> Tensor:
    """Distance of the critics' features, relative to the real ones' size (EnCodec, Défossez et al. 2022)."""
    pairs = zip(real, made, strict=True)
    distances = [_distance(r, m) for (_, reals), (_, mades) in pairs for r, m in zip(reals, mades, strict=True)]
    return torch.stack(distances).mean().float()


def _distance(real: Tensor, made: Tensor) -> Tensor:
    return (real - made).abs().mean() / (real.abs().mean() + 1e-5)

"""Log-mel frames as the speaker encoder hears them (SPEC 7)."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

_FFT = 1024
_HOP = 256


def log_mel(samples: Tensor, rate: int, bands: int) -> Tensor:
    """float32 samples [n] -> [bands, frames]: natural log of the magnitude mel spectrum, floored at 1e-5."""
    padding = (_FFT - _HOP) // 2
    padded = F.pad(samples[None], (padding, padding), mode="reflect")[0]
    window = torch.hann_window(_FFT, device=samples.device)
    spectrum = torch.view_as_real(torch.stft(padded, _FFT, _HOP, window=window, center=False, return_complex=True))
    magnitude = spectrum.square().sum(-1).add(1e-9).sqrt()
    return (slaney_filters(rate, bands).to(samples.device) @ magnitude).clamp(min=1e-5).log()


@lru_cache
def slaney_filters(rate: int, bands: int, fft: int = _FFT) -> Tensor:
    """[bands, fft / 2 + 1] triangles on Slaney's mel scale (Auditory Toolbox, 1998) of unit area, 0 to rate / 2."""
    top = _to_mel(torch.tensor(rate / 2, dtype=torch.float64))
    edges = _to_hertz(torch.linspace(0, float(top), bands + 2, dtype=torch.float64))
    bins = torch.linspace(0, rate / 2, fft // 2 + 1, dtype=torch.float64)
    slopes = edges[:, None] - bins
    widths = edges.diff()
    rising = -slopes[:-2] / widths[:-1, None]
    falling = slopes[2:] / widths[1:, None]
    triangles = torch.minimum(rising, falling).clamp(min=0).float()
    return (triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None]).float()


def _to_mel(hertz: Tensor) -> Tensor:
    """Linear to 1 kHz (15 mel), logarithmic above."""
    return torch.where(hertz < 1000, hertz * 3 / 200, 15 + torch.log(hertz / 1000) * 27 / torch.log(_octaves()))


def _to_hertz(mel: Tensor) -> Tensor:
    return torch.where(mel < 15, mel * 200 / 3, 1000 * torch.exp((mel - 15) * torch.log(_octaves()) / 27))


def _octaves() -> Tensor:
    return torch.tensor(6.4, dtype=torch.float64)

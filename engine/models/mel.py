"""Log-mel frames as the speaker encoder hears them (SPEC 7)."""

from __future__ import annotations

from functools import lru_cache
from math import pi

import torch
from torch import Tensor

from engine.models.row_ends import RowEnds

_FFT = 1024
_HOP = 256


class LogMel:
    """Natural log of the magnitude mel spectrum, floored at 1e-5, on ``device``.

    On a GPU the spectrum is a product: what cuFFT plans for each number of frames takes longer than the transform, and
    torch may drop a plan that a captured graph needs.
    """

    def __init__(self, rate: int, bands: int, device: torch.device) -> None:
        self._filters = slaney_filters(rate, bands).to(device)
        self._window = torch.hann_window(_FFT)
        self._waves = None if device.type == "cpu" else windowed_waves().to(device)

    def __call__(self, samples: Tensor, ends: RowEnds) -> Tensor:
        """float32 samples [rows, n] -> [rows, bands, n / 256]; with ends ``at(frames_of)`` where the rows have n."""
        padding = (_FFT - _HOP) // 2
        padded = ends.padded(samples[:, None], padding, padding, "reflect")[:, 0]
        if self._waves is None:
            spectrum = torch.view_as_real(
                torch.stft(padded, _FFT, _HOP, window=self._window, center=False, return_complex=True)
            )
        else:
            spectrum = spectrum_by_product(padded, self._waves)
        magnitude = spectrum.square().sum(-1).add(1e-9).sqrt()
        return (self._filters @ magnitude).clamp(min=1e-5).log()


def frames_of(samples: Tensor) -> Tensor:
    """How many frames so many samples have."""
    return samples // _HOP


def spectrum_by_product(samples: Tensor, waves: Tensor) -> Tensor:
    """What torch.stft makes of samples [rows, n]: [rows, bins, frames, 2], as one product with ``windowed_waves``."""
    frames = samples.unfold(-1, _FFT, _HOP)
    parts = frames.reshape(-1, _FFT) @ waves
    return parts.view(*frames.shape[:2], 2, -1).permute(0, 3, 1, 2)


def windowed_waves() -> Tensor:
    """[1024, 2 * 513]: the cosines and the negative sines of every bin, in Hann's window."""
    at = torch.arange(_FFT, dtype=torch.float64)
    angles = at[:, None] * torch.arange(_FFT // 2 + 1) % _FFT * (2 * pi / _FFT)
    window = torch.hann_window(_FFT, dtype=torch.float64)
    return (window[:, None] * torch.cat((angles.cos(), -angles.sin()), 1)).float()


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

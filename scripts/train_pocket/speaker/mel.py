"""Log-mel spectrograms of batches, equal to those of engine.models.speaker_encoder."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.speaker_encoder import slaney_filters

_FFT = 1024
_HOP = 256


def log_mels(clips: Tensor, rate: int, bands: int) -> Tensor:
    """Return log-mel frames [batch, bands, frames] of clips [batch, n]: natural log, always float32 (SPEC 7)."""
    with torch.autocast(clips.device.type, enabled=False):
        padding = (_FFT - _HOP) // 2
        padded = F.pad(clips[:, None], (padding, padding), mode="reflect")[:, 0]
        window = torch.hann_window(_FFT, device=clips.device)
        spectra = torch.view_as_real(torch.stft(padded, _FFT, _HOP, window=window, center=False, return_complex=True))
        magnitudes = spectra.square().sum(-1).add(1e-9).sqrt()
        return (_filters(rate, bands, clips.device) @ magnitudes).clamp(min=1e-5).log()


@lru_cache
def _filters(rate: int, bands: int, device: torch.device) -> Tensor:
    """Return the engine's filters. They are copied to the device once, because a copy waits for the previous step."""
    return slaney_filters(rate, bands).to(device)

"""Distances between waveforms, and what ties the semantic codebook to phonemes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.models.speaker_encoder import slaney_filters
from engine.protocol.request import SAMPLE_RATE

_SCALES = ((2048, 160), (1024, 128), (512, 80), (256, 40), (128, 20), (64, 10))
"""(window, mel bands); hops are a quarter of the window."""
_FLOOR = 1e-5
_CORRELATED = 20.0
"""Of mean squared correlations, which are small where there are many dimensions."""


class MelDistance(nn.Module):
    """L1 distance of log-mel spectrograms at several resolutions (DAC, Kumar et al. 2023)."""

    def __init__(self) -> None:
        super().__init__()
        for size, bands in _SCALES:
            self.register_buffer(f"window{size}", torch.hann_window(size), persistent=False)
            self.register_buffer(f"bands{size}", slaney_filters(SAMPLE_RATE, bands, size), persistent=False)

    def forward(self, made: Tensor, real: Tensor) -> Tensor:
        """Samples [batch, n] each -> scalar."""
        with torch.autocast(made.device.type, enabled=False):
            terms = [self._distance(made.float(), real.float(), size) for size, _ in _SCALES]
        return torch.stack(terms).mean()

    def _distance(self, made: Tensor, real: Tensor, size: int) -> Tensor:
        return F.l1_loss(self._log_mel(made, size), self._log_mel(real, size))

    def _log_mel(self, samples: Tensor, size: int) -> Tensor:
        window, bands = getattr(self, f"window{size}"), getattr(self, f"bands{size}")
        spectrum = torch.stft(samples, size, size // 4, window=window, return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()
        return torch.log10((bands @ (power + 1e-9).sqrt()).clamp(min=_FLOOR))


class PhonemeHead(nn.Module):
    """Reads the phonemes of a frame's four quarters off the semantic codebook's vector.

    With it the first codebook carries what is said, as Mimi's does by distillation from a speech model: the talker
    predicts that codebook from the text.
    """

    def __init__(self, width: int, phonemes: int) -> None:
        super().__init__()
        self.read = nn.Linear(width, 4 * phonemes)

    def forward(self, semantic: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors [batch, frames, width], labels [batch, frames, 4] -> cross-entropy, share read right."""
        logits = self.read(semantic).unflatten(-1, (4, -1)).flatten(0, 2)
        truth = labels.flatten()
        return F.cross_entropy(logits.float(), truth), (logits.argmax(-1) == truth).float().mean()


def crowding(x: Tensor) -> Tensor:
    """How far x [n, width] is from having ``width`` dimensions of their own: small deviations and correlations.

    The variance and covariance terms of VICReg (Bardes et al. 2022). Without them one loud dimension, such as the
    level, leaves the others no part in the codebooks' distances.
    """
    centred = x - x.mean(0)
    deviation = (centred.square().mean(0) + 1e-4).sqrt()
    correlation = (centred / deviation).T @ (centred / deviation) / len(x)
    width = x.shape[1]
    correlated = (correlation.square().sum() - correlation.diagonal().square().sum()) / (width * (width - 1))
    uneven = (1 - deviation).abs().mean()
    return uneven + _CORRELATED * correlated

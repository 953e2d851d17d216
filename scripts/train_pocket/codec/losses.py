"""Losses of the codec: distance of waveforms, phonemes of the semantic codebook, correlation of latents."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.models.speaker_encoder import slaney_filters
from engine.protocol.request import SAMPLE_RATE

_SCALES = ((2048, 160), (1024, 128), (512, 80), (256, 40), (128, 20), (64, 10))
"""(window, mel bands); hops are a quarter of the window."""
_FLOOR = 1e-5
_CORRELATION_WEIGHT = 20.0
"""Weight of the mean squared correlation, which is small if there are many dimensions."""


class MelDistance(nn.Module):
    """L1 distance of log-mel spectrograms at several resolutions (DAC, Kumar et al. 2023)."""

    def __init__(self) -> None:
        super().__init__()
        for size, bands in _SCALES:
            self.register_buffer(f"window{size}", torch.hann_window(size), persistent=False)
            self.register_buffer(f"bands{size}", slaney_filters(SAMPLE_RATE, bands, size), persistent=False)

    def forward(self, generated: Tensor, real: Tensor) -> Tensor:
        """Return the distance, a scalar, of samples [batch, n]."""
        with torch.autocast(generated.device.type, enabled=False):
            terms = [self._distance(generated.float(), real.float(), size) for size, _ in _SCALES]
        return torch.stack(terms).mean()

    def _distance(self, generated: Tensor, real: Tensor, size: int) -> Tensor:
        return F.l1_loss(self._log_mel(generated, size), self._log_mel(real, size))

    def _log_mel(self, samples: Tensor, size: int) -> Tensor:
        window, bands = getattr(self, f"window{size}"), getattr(self, f"bands{size}")
        spectrum = torch.stft(samples, size, size // 4, window=window, return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()
        return torch.log10((bands @ (power + 1e-9).sqrt()).clamp(min=_FLOOR))


class PhonemeHead(nn.Module):
    """Predicts the phonemes of a frame's four quarters from the semantic codebook's vector.

    So the first codebook encodes the phonetic content, as Mimi's does by distillation from a speech model. The talker
    predicts that codebook from the text.
    """

    def __init__(self, width: int, phonemes: int) -> None:
        super().__init__()
        self.read = nn.Linear(width, 4 * phonemes)

    def forward(self, semantic: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return cross-entropy and accuracy for vectors [batch, frames, width] and labels [batch, frames, 4]."""
        logits = self.read(semantic).unflatten(-1, (4, -1)).flatten(0, 2)
        expected = labels.flatten()
        return F.cross_entropy(logits.float(), expected), (logits.argmax(-1) == expected).float().mean()


def correlation_loss(x: Tensor) -> Tensor:
    """Return how far x [n, width] is from ``width`` independent dimensions of equal variance.

    These are the variance and covariance terms of VICReg (Bardes et al. 2022). Without them one dimension with a large
    variance, such as the level, dominates the codebooks' distances.
    """
    centered = x - x.mean(0)
    deviation = (centered.square().mean(0) + 1e-4).sqrt()
    correlation = (centered / deviation).T @ (centered / deviation) / len(x)
    width = x.shape[1]
    off_diagonal = (correlation.square().sum() - correlation.diagonal().square().sum()) / (width * (width - 1))
    deviation_error = (1 - deviation).abs().mean()
    return deviation_error + _CORRELATION_WEIGHT * off_diagonal

"""The speaker encoder: maps a recording to an x-vector (SPEC 7). Always float32."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import pi

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.checkpoint.architecture import SpeakerEncoderArchitecture
from engine.models.ragged import FullLengths, RaggedLengths, RowLengths

_FFT = 1024
_HOP = 256


class LogMel:
    """Natural log of the magnitude mel spectrum, floored at 1e-5, on ``device``.

    On a GPU the spectrum is computed as a matrix product, without cuFFT. cuFFT makes a plan for each number of frames,
    which takes longer than the transform. And torch can evict a plan that a captured graph still needs.
    """

    def __init__(self, rate: int, bands: int, device: torch.device) -> None:
        self._filters = slaney_filters(rate, bands).to(device)
        self._window = torch.hann_window(_FFT)
        self._dft_matrix = None if device.type == "cpu" else dft_matrix().to(device)

    def __call__(self, samples: Tensor, lengths: RowLengths) -> Tensor:
        """Map float32 samples [rows, n] to [rows, bands, n / 256]. Its lengths are ``lengths.map(frames_of)``."""
        padding = (_FFT - _HOP) // 2
        padded = lengths.pad(samples[:, None], padding, padding, "reflect")[:, 0]
        if self._dft_matrix is None:
            spectrum = torch.view_as_real(
                torch.stft(padded, _FFT, _HOP, window=self._window, center=False, return_complex=True)
            )
        else:
            spectrum = matrix_stft(padded, self._dft_matrix)
        magnitude = spectrum.square().sum(-1).add(1e-9).sqrt()
        return (self._filters @ magnitude).clamp(min=1e-5).log()


def frames_of(samples: Tensor) -> Tensor:
    """Return the number of mel frames of ``samples`` samples."""
    return samples // _HOP


def matrix_stft(samples: Tensor, matrix: Tensor) -> Tensor:
    """Compute torch.stft of samples [rows, n] as one product with ``dft_matrix``: [rows, bins, frames, 2]."""
    frames = samples.unfold(-1, _FFT, _HOP)
    parts = frames.reshape(-1, _FFT) @ matrix
    return parts.view(*frames.shape[:2], 2, -1).permute(0, 3, 1, 2)


def dft_matrix() -> Tensor:
    """Return the DFT matrix [1024, 2 * 513]: Hann-windowed cosines, then negative sines, of every bin."""
    sample = torch.arange(_FFT, dtype=torch.float64)
    angles = sample[:, None] * torch.arange(_FFT // 2 + 1) % _FFT * (2 * pi / _FFT)
    window = torch.hann_window(_FFT, dtype=torch.float64)
    return (window[:, None] * torch.cat((angles.cos(), -angles.sin()), 1)).float()


@lru_cache
def slaney_filters(rate: int, bands: int, fft: int = _FFT) -> Tensor:
    """Return triangular mel filters [bands, fft / 2 + 1] of unit area, from 0 to rate / 2 Hz.

    Mel scale of Slaney (Auditory Toolbox, 1998).
    """
    top_mel = _to_mel(torch.tensor(rate / 2, dtype=torch.float64))
    edges = _to_hertz(torch.linspace(0, float(top_mel), bands + 2, dtype=torch.float64))
    bins = torch.linspace(0, rate / 2, fft // 2 + 1, dtype=torch.float64)
    slopes = edges[:, None] - bins
    widths = edges.diff()
    rising = -slopes[:-2] / widths[:-1, None]
    falling = slopes[2:] / widths[1:, None]
    triangles = torch.minimum(rising, falling).clamp(min=0).float()
    return (triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None]).float()


def _to_mel(hertz: Tensor) -> Tensor:
    """Convert Hz to mel: linear up to 1 kHz (15 mel), logarithmic above."""
    return torch.where(hertz < 1000, hertz * 3 / 200, 15 + torch.log(hertz / 1000) * 27 / torch.log(_log_range()))


def _to_hertz(mel: Tensor) -> Tensor:
    return torch.where(mel < 15, mel * 200 / 3, 1000 * torch.exp((mel - 15) * torch.log(_log_range()) / 27))


def _log_range() -> Tensor:
    return torch.tensor(6.4, dtype=torch.float64)


class SpeakerEncoder:
    """ECAPA-TDNN over log-mel frames. tensors: the checkpoint's, without the prefix ``speaker_encoder.``."""

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: SpeakerEncoderArchitecture, *, device: torch.device
    ) -> None:
        self.architecture, self.device = architecture, device
        self._tensors = {name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}
        self._log_mel = LogMel(architecture.sample_rate, architecture.mel_dim, device)

    def __call__(self, samples: Tensor) -> Tensor:
        """Map mono float32 samples [n] at the encoder's sample rate to an x-vector, float32 [width]."""
        return self._encode(samples.to(self.device)[None], FullLengths())[0]

    def batch(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Map recordings [rows, n] to x-vectors [rows, width]. lengths: samples per row, int64 [rows].

        Both arguments are on the device. Each x-vector equals the one of its recording alone, except for summation
        order. No operation synchronizes with the device, so a CUDA graph can capture the call.
        """
        return self._encode(samples, RaggedLengths(lengths))

    def _encode(self, samples: Tensor, lengths: RowLengths) -> Tensor:
        x, lengths = self._log_mel(samples, lengths), lengths.map(frames_of)
        x = self._tdnn(x, lengths, "blocks.0", self.architecture.dilations[0])
        stages = []
        for block in range(1, len(self.architecture.channels) - 1):
            x = self._se_res2net(x, lengths, f"blocks.{block}", self.architecture.dilations[block])
            stages.append(x)
        x = self._tdnn(torch.cat(stages, 1), lengths, "mfa", self.architecture.dilations[-1])
        return self._pointwise(self._attentive_statistics(x, lengths), "fc").squeeze(-1)

    def _conv(self, x: Tensor, lengths: RowLengths, name: str, dilation: int = 1) -> Tensor:
        """Convolve with reflection padding at both ends, which preserves the length."""
        weight = self._tensors[f"{name}.weight"]
        padding = (weight.shape[-1] - 1) * dilation
        if padding:
            x = lengths.pad(x, padding // 2, padding - padding // 2, "reflect")
        return F.conv1d(x, weight, self._tensors[f"{name}.bias"], dilation=dilation)

    def _pointwise(self, x: Tensor, name: str) -> Tensor:
        return F.conv1d(x, self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"])

    def _tdnn(self, x: Tensor, lengths: RowLengths, name: str, dilation: int = 1) -> Tensor:
        return self._conv(x, lengths, f"{name}.conv", dilation).relu_()

    def _se_res2net(self, x: Tensor, lengths: RowLengths, name: str, dilation: int) -> Tensor:
        y = self._tdnn(x, lengths, f"{name}.tdnn1")
        parts = list(y.chunk(self.architecture.res2net_scale, 1))
        for index in range(1, len(parts)):
            x_part = parts[index] if index == 1 else parts[index] + parts[index - 1]
            parts[index] = self._tdnn(x_part, lengths, f"{name}.res2net_block.blocks.{index - 1}", dilation)
        y = self._tdnn(torch.cat(parts, 1), lengths, f"{name}.tdnn2")
        squeezed = self._pointwise(lengths.mean(y), f"{name}.se_block.conv1").relu_()
        return y * self._pointwise(squeezed, f"{name}.se_block.conv2").sigmoid_() + x

    def _attentive_statistics(self, x: Tensor, lengths: RowLengths) -> Tensor:
        """Map [rows, channels, n] to the attention-weighted mean and deviation over time, [rows, 2 * channels, 1]."""
        mean, deviation = _statistics(x, lengths.mean_weights(x))
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), 1)
        scores = self._conv(self._tdnn(context, lengths, "asp.tdnn").tanh_(), lengths, "asp.conv")
        weights = torch.softmax(lengths.fill_padding(scores, float("-inf")), -1)
        return torch.cat(_statistics(x, weights), 1)


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return weighted mean and standard deviation over time, [rows, channels, 1] each.

    The weights must sum to one. The variance is the population variance.
    """
    mean = (weights * x).sum(-1, keepdim=True)
    deviation = (weights * (x - mean).square()).sum(-1, keepdim=True).clamp(min=1e-12).sqrt()
    return mean, deviation

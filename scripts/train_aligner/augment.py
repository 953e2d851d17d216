"""Log-mel frames in torch, with random changes that make the aligner robust: level, filters, noise, rooms, rate."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from server.alignment.features import FFT, FLOOR, HOP, MELS, OFFSET, SCALE, WINDOW, hann, mel_filters

_LEVEL_DB = 8.0
_FILTER_DB = 4.0
_DISTORTION_DB = 2.0
_BAND_SHARE = 0.3
_NOISE_SHARE = 0.6
_NOISE_DB = (8.0, 45.0)
"""Range of the ratio of speech to noise."""
_BABBLE_SHARE = 0.15
_ROOM_SHARE = 0.25
_ROOM_TAPS = 40
_RATES = (0.75, 1.35)


def mel_power(samples: Tensor) -> Tensor:
    """Return the mel power [b, n / HOP, MELS] of float samples [b, n]; n is a multiple of HOP.

    The same as in server/alignment/features.py.
    """
    lead = (WINDOW - HOP) // 2
    padded = F.pad(samples, (lead, WINDOW - HOP - lead))
    windows = padded.unfold(1, WINDOW, HOP) * torch.from_numpy(hann()).to(samples)
    spectrum = torch.fft.rfft(windows, FFT)
    power: Tensor = spectrum.real.square() + spectrum.imag.square()
    return torch.matmul(power, torch.from_numpy(mel_filters()).to(samples))


def scaled_log(power: Tensor) -> Tensor:
    """Return the network's input for a mel power."""
    return (torch.log(power + FLOOR) + OFFSET) * SCALE


def augment(power: Tensor) -> Tensor:
    """Return a randomly changed copy of the mel power [b, frames, MELS]."""
    power = power * _decibels(_LEVEL_DB * _normal(power, (len(power), 1, 1)))
    power = _room(power) * _filters(power)
    power = power * _decibels(_distortion(power))
    return power + _noise(power) + _babble(power)


def random_rate() -> float:
    """Return a random speaking rate: a factor of the number of frames."""
    low, high = _RATES
    return float(torch.empty(()).uniform_(low, high))


def positions(frames: int, rate: float, device: torch.device) -> Tensor:
    """Return the position in the original of each frame at another rate, float [frames / rate]."""
    return torch.linspace(0, frames - 1, max(2, round(frames / rate)), device=device)


def interpolated(features: Tensor, at: Tensor) -> Tensor:
    """Return features [b, frames, MELS] at the positions ``at`` [n]: [b, n, MELS]."""
    low = at.floor().long().clamp(max=features.shape[1] - 2)
    weight = (at - low)[None, :, None]
    return features[:, low] * (1 - weight) + features[:, low + 1] * weight


def _filters(power: Tensor) -> Tensor:
    """Return gains [b, 1, MELS]: a smooth curve for all, and a limited band for some."""
    curve = F.interpolate(_normal(power, (len(power), 1, 6)), MELS, mode="linear", align_corners=True)
    mel = torch.arange(MELS, device=power.device)[None, None]
    high = _uniform(power, 0.6 * MELS, MELS)
    low = _uniform(power, 0, 0.12 * MELS)
    outside = F.relu(mel - high) + F.relu(low - mel)
    limited = (_uniform(power, 0, 1) < _BAND_SHARE) * torch.clamp(outside * 8, max=50)
    return _decibels(_FILTER_DB * curve - limited)


def _distortion(power: Tensor) -> Tensor:
    """Return a random change in dB of each frame and band, as of a codec at a low bit rate."""
    strength = _DISTORTION_DB * torch.rand((len(power), 1, 1), device=power.device)
    return strength * _normal(power, tuple(power.shape))


def _noise(power: Tensor) -> Tensor:
    shape = F.interpolate(_normal(power, (len(power), 1, 4)), MELS, mode="linear", align_corners=True)
    tilt = torch.linspace(0, -20, MELS, device=power.device) * torch.rand((len(power), 1, 1), device=power.device)
    spectrum = _decibels(4 * shape + tilt)
    spectrum = spectrum / spectrum.mean(2, keepdim=True)
    ratio = torch.where(_uniform(power, 0, 1) < _NOISE_SHARE, _uniform(power, *_NOISE_DB), 90.0)
    fluctuation = torch.empty_like(power).exponential_()
    return _loudness(power) * spectrum * fluctuation * _decibels(-ratio)


def _babble(power: Tensor) -> Tensor:
    ratio = torch.where(_uniform(power, 0, 1) < _BABBLE_SHARE, _uniform(power, 10.0, 25.0), 90.0)
    others = torch.roll(power, 1, 0) / _loudness(power).roll(1, 0).clamp(min=1e-9)
    return _loudness(power) * others * _decibels(-ratio)


def _room(power: Tensor) -> Tensor:
    """Return the power with an exponential decay after each frame for some."""
    seconds = _uniform(power, 0.05, 0.4)
    decay = torch.exp(-13.8 * 0.01 / seconds)  # -60 dB after ``seconds``
    level = (_uniform(power, 0, 1) < _ROOM_SHARE) * _decibels(_uniform(power, -20, -6))
    taps = torch.arange(1, _ROOM_TAPS + 1, device=power.device)
    kernel = torch.cat([torch.ones_like(level), level * decay**taps], 2).flip(2)  # [b, 1, taps + 1]
    rows = power.permute(2, 0, 1)  # [MELS, b, frames]
    padded = F.pad(rows, (_ROOM_TAPS, 0))
    result: Tensor = F.conv1d(padded, kernel, groups=len(power))
    return result.permute(1, 2, 0)


def _loudness(power: Tensor) -> Tensor:
    """Return the mean power of each utterance's louder frames [b, 1, 1]."""
    energy = power.mean(2)
    return energy.topk(max(1, energy.shape[1] // 3), dim=1).values.mean(1)[:, None, None]


def _decibels(value: Tensor) -> Tensor:
    return 10 ** (value / 10)


def _normal(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, device=like.device)


def _uniform(like: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * torch.rand((len(like), 1, 1), device=like.device)

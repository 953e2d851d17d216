"""Augmentation of recordings: rooms, microphones, noise, telephone bands, levels."""

from __future__ import annotations

import torch
from torch import Tensor

from scripts.train_pocket.speaker.shards import SAMPLE_RATE

_UNCHANGED = 0.15
_ROOM = 0.3
_MICROPHONE = 0.5
_NOISE = 0.5
_NARROW = 0.4
_CLIPPED = 0.15
_SIXTEEN_BITS = 0.5
_TAIL = SAMPLE_RATE // 2


class Augmenter:
    """Changes a batch of clips at random, each clip differently."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def __call__(self, clips: Tensor) -> Tensor:
        """Return the changed clips, float32 [batch, n] in -1..1. For about one in seven only the level changes."""
        unchanged = self._happens(clips, _UNCHANGED)
        return self._level(torch.where(unchanged, clips, self._clip(self._channel(clips))))

    def _channel(self, clips: Tensor) -> Tensor:
        """Return ((clip * room * microphone) + noise) * band, computed as spectra with enough padding not to wrap."""
        length = clips.shape[1]
        hertz = torch.fft.rfftfreq(length + _TAIL, 1 / SAMPLE_RATE, device=clips.device)
        spectra = torch.fft.rfft(clips, length + _TAIL) * self._room(clips) * self._microphone(clips, hertz)
        spectra = (spectra + self._noise(clips, spectra, hertz)) * self._band(clips, hertz)
        return torch.fft.irfft(spectra, length + _TAIL)[:, :length]

    def _room(self, clips: Tensor) -> Tensor:
        """Return the spectrum of an impulse and a noise tail, 0 to 20 dB weaker, with an RT60 of 0.1 to 0.6 s."""
        seconds = torch.arange(_TAIL, device=clips.device) / SAMPLE_RATE
        decay = torch.exp(-6.91 * seconds / self._uniform(clips, 0.1, 0.6))
        tail = decay * self._normal(clips, _TAIL)
        tail *= _gain(self._uniform(clips, -20, 0)) / tail.square().sum(1, keepdim=True).sqrt()
        tail[:, 0] = 0
        response = tail * self._happens(clips, _ROOM)
        response[:, 0] = 1
        return torch.fft.rfft(response, clips.shape[1] + _TAIL)

    def _microphone(self, clips: Tensor, hertz: Tensor) -> Tensor:
        """Return a gain by frequency: a slope of up to 3 dB per octave and a ripple of up to 5 dB."""
        octaves = (hertz.clamp(min=50) / 1000).log2()
        phase = 6.28 * (octaves * self._uniform(clips, 0.06, 0.3) + self._uniform(clips, 0, 1))
        decibels = octaves * self._uniform(clips, -3, 3) + self._uniform(clips, 0, 5) * phase.sin()
        return _gain(decibels * self._happens(clips, _MICROPHONE))

    def _noise(self, clips: Tensor, spectra: Tensor, hertz: Tensor) -> Tensor:
        """Return noise between white and brown, 15 to 40 dB below the clip."""
        color = hertz.clamp(min=50) ** (-self._uniform(clips, 0, 2) / 2)
        noise = torch.view_as_complex(self._normal(clips, *spectra.shape[1:], 2)) * color
        ratio = _power(spectra) / _power(noise).clamp(min=1e-12)
        return noise * ratio.sqrt() * _gain(self._uniform(clips, -40, -15)) * self._happens(clips, _NOISE)

    def _band(self, clips: Tensor, hertz: Tensor) -> Tensor:
        """Return a low-pass filter at 4 to 11 kHz, as of a lower sample rate. Its slope is a tenth as wide."""
        edge = self._uniform(clips, 4000, 11000)
        slope = ((edge - hertz) / (0.1 * edge)).clamp(0, 1)
        return torch.where(self._happens(clips, _NARROW), slope, 1.0)

    def _clip(self, clips: Tensor) -> Tensor:
        limits = clips.abs().amax(1, keepdim=True) * self._uniform(clips, 0.35, 0.9)
        return torch.where(self._happens(clips, _CLIPPED), clips.maximum(-limits).minimum(limits), clips)

    def _level(self, clips: Tensor) -> Tensor:
        """Return the clips at an RMS of -40 to -14 dBFS, half of them rounded to 16 bits."""
        rms = clips.square().mean(1, keepdim=True).sqrt().clamp(min=1e-5)
        clips = (clips * _gain(self._uniform(clips, -40, -14)) / rms).clamp(-1, 1)
        return torch.where(self._happens(clips, _SIXTEEN_BITS), (clips * 32768).round() / 32768, clips)

    def _happens(self, clips: Tensor, probability: float) -> Tensor:
        """Return random booleans [batch, 1]."""
        return self._uniform(clips, 0, 1) < probability

    def _uniform(self, clips: Tensor, low: float, high: float) -> Tensor:
        """Return random floats [batch, 1]."""
        return low + (high - low) * torch.rand(len(clips), 1, device=clips.device, generator=self._generator)

    def _normal(self, clips: Tensor, *shape: int) -> Tensor:
        """Return normal random numbers [batch, *shape]."""
        return torch.randn(len(clips), *shape, device=clips.device, generator=self._generator)


def _gain(decibels: Tensor) -> Tensor:
    return 10 ** (decibels / 20)


def _power(spectra: Tensor) -> Tensor:
    """Return the mean power [batch, 1]."""
    return spectra.abs().square().mean(1, keepdim=True)

"""Augmentation of recordings: rooms, microphones, noise, other voices, music, telephone bands, levels."""

from __future__ import annotations

import torch
from torch import Tensor

from scripts.train_pocket.speaker.shards import SAMPLE_RATE

_UNCHANGED = 0.15
_ROOM = 0.3
_MICROPHONE = 0.5
_BACKGROUNDS = (0.5, 0.3, 0.12, 0.08)
"""Shares of clips with no background, noise, other voices, music."""
_BACKGROUND_DB = (-35.0, -5.0)
_VOICES = 5
_HARMONICS = 5
_NOTES = 8
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
        """Return (clip * room * microphone + background) * band, as spectra with enough padding not to wrap."""
        length = clips.shape[1]
        hertz = torch.fft.rfftfreq(length + _TAIL, 1 / SAMPLE_RATE, device=clips.device)
        spectra = torch.fft.rfft(clips, length + _TAIL) * self._room(clips) * self._microphone(clips, hertz)
        spectra = (spectra + self._background(clips, spectra, hertz)) * self._band(clips, hertz)
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

    def _background(self, clips: Tensor, spectra: Tensor, hertz: Tensor) -> Tensor:
        """Return noise, other voices, music or nothing, 5 to 35 dB below the clip."""
        kinds = torch.stack((self._noise(spectra, hertz), self._babble(spectra), self._music(clips, hertz)), 1)
        shares = torch.tensor(_BACKGROUNDS, device=clips.device)
        drawn = (self._uniform(clips, 0, 1) >= shares.cumsum(0)[None, :-1]).sum(1)
        background = kinds[torch.arange(len(clips), device=clips.device), (drawn - 1).clamp(min=0)]
        ratio = (_power(spectra) / _power(background).clamp(min=1e-12)).sqrt()
        return background * ratio * _gain(self._uniform(clips, *_BACKGROUND_DB)) * (drawn > 0)[:, None]

    def _noise(self, spectra: Tensor, hertz: Tensor) -> Tensor:
        """Return noise between white and brown."""
        color = hertz.clamp(min=50) ** (-self._uniform(spectra, 0, 2) / 2)
        return torch.view_as_complex(self._normal(spectra, *spectra.shape[1:], 2)) * color

    def _babble(self, spectra: Tensor) -> Tensor:
        """Return the sum of several clips of the batch, each shifted in time."""
        count, bins = spectra.shape
        others = torch.randint(count, (_VOICES, count), device=spectra.device, generator=self._generator)
        shifts = torch.rand(_VOICES, count, 1, device=spectra.device, generator=self._generator)
        phase = -2 * torch.pi * torch.arange(bins, device=spectra.device)
        total = torch.zeros_like(spectra)
        for clip, shift in zip(others, shifts, strict=True):
            samples = (shift * 2 * (bins - 1)).floor() / (2 * (bins - 1))
            total += spectra[clip] * torch.polar(torch.ones_like(phase * samples), phase * samples)
        return total

    def _music(self, clips: Tensor, hertz: Tensor) -> Tensor:
        """Return the spectrum of notes of a scale, with harmonics and decay, that begin at random times."""
        seconds = torch.arange(clips.shape[1] + _TAIL, device=clips.device) / SAMPLE_RATE
        total = torch.zeros(len(clips), len(seconds), device=clips.device)
        root = 110 * 2 ** self._uniform(clips, 0, 1)
        for _ in range(_NOTES):
            note = root * 2 ** (self._uniform(clips, 0, 24).floor() / 12)
            since = seconds - self._uniform(clips, 0, 1) * seconds[-1]
            envelope = (since >= 0) * torch.exp(-since.clamp(min=0) / self._uniform(clips, 0.1, 1.0))
            harmonics = [(6.2832 * note * n * since).sin() / n for n in range(1, _HARMONICS + 1)]
            total += envelope * torch.stack(harmonics).sum(0)
        return torch.fft.rfft(total)

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

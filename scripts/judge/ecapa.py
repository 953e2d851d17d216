"""ECAPA-TDNN speaker encoder (Desplanques et al. 2020, arXiv 2005.07143), with SpeechBrain's weights for VoxCeleb."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from scripts.judge.sound import JUDGE_RATE, Samples, trim_silence

_CHANNELS, _MELS, _NARROW, _WIDTH, _SCALE = 1024, 80, 128, 192, 8
_WINDOW, _HOP = 400, 160
_TOP_HZ = 8000.0
_RANGE_DB = 80.0


class SpeakerJudge:
    """Maps recordings to unit vectors. The dot product of two is the cosine similarity of their speakers."""

    def __init__(self, file: Path) -> None:
        self._network = _Network().eval()
        self._network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
        self._filters = _mel_filters()
        self._window = torch.hamming_window(_WINDOW)

    @torch.inference_mode()
    def __call__(self, samples: Samples) -> NDArray[np.float32]:
        """Return the vector, float32 [192], of samples [n] at 16 kHz. Silence at the ends is ignored."""
        speech = torch.from_numpy(trim_silence(samples, JUDGE_RATE).copy())
        return np.asarray(F.normalize(self._network(self._features(speech)), dim=-1)[0])

    def _features(self, speech: Tensor) -> Tensor:
        """Return log mel energies minus their mean over time, [1, mels, frames]."""
        spectrum = torch.stft(
            speech[None], _WINDOW, _HOP, window=self._window, pad_mode="constant", return_complex=True
        )
        energies = 10 * torch.log10((spectrum.abs() ** 2).transpose(1, 2).matmul(self._filters).clamp(min=1e-10))
        energies = energies.clamp(min=float(energies.max()) - _RANGE_DB)
        return (energies - energies.mean(1, keepdim=True)).transpose(1, 2)


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = [_Block(_CHANNELS, dilation) for dilation in (2, 3, 4)]
        self.blocks = nn.ModuleList([_Tdnn(_MELS, _CHANNELS, 5), *blocks])
        self.mfa = _Tdnn(3 * _CHANNELS, 3 * _CHANNELS)
        self.asp = _AttentivePooling(3 * _CHANNELS)
        self.asp_bn = _Norm(6 * _CHANNELS)
        self.fc = _Conv(6 * _CHANNELS, _WIDTH)

    def forward(self, features: Tensor) -> Tensor:
        """Return the vector [1, width] of features [1, mels, frames]."""
        x, outputs = features, []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        pooled = self.asp(self.mfa(torch.cat(outputs[1:], 1)))
        vector: Tensor = self.fc(self.asp_bn(pooled))[..., 0]
        return vector


class _Conv(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels_in, channels_out, kernel, dilation=dilation)
        self._margin = dilation * (kernel - 1) // 2

    def forward(self, x: Tensor) -> Tensor:
        convolved: Tensor = self.conv(F.pad(x, (self._margin, self._margin), mode="reflect") if self._margin else x)
        return convolved


class _Norm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x)
        return normed


class _Tdnn(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv, self.norm = _Conv(channels_in, channels_out, kernel, dilation), _Norm(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(F.relu(self.conv(x)))
        return normed


class _Res2Net(nn.Module):
    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        part = channels // _SCALE
        self.blocks = nn.ModuleList(_Tdnn(part, part, kernel, dilation) for _ in range(_SCALE - 1))

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = x.chunk(_SCALE, 1)
        outputs = [first]
        for index, (block, part) in enumerate(zip(self.blocks, rest, strict=True)):
            outputs.append(block(part + outputs[-1] if index else part))
        return torch.cat(outputs, 1)


class _SqueezeExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = _Conv(channels, _NARROW), _Conv(_NARROW, channels)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.conv2(F.relu(self.conv1(x.mean(2, keepdim=True)))))


class _Block(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1, self.tdnn2 = _Tdnn(channels, channels), _Tdnn(channels, channels)
        self.res2net_block = _Res2Net(channels, 3, dilation)
        self.se_block = _SqueezeExcitation(channels)

    def forward(self, x: Tensor) -> Tensor:
        residual: Tensor = self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))
        return x + residual


class _AttentivePooling(nn.Module):
    """Mean and standard deviation over time, weighted by attention over the unweighted ones."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.tdnn, self.conv = _Tdnn(3 * channels, _NARROW), _Conv(_NARROW, channels)

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation = x.mean(2, keepdim=True), x.std(2, unbiased=False, keepdim=True).clamp(min=1e-6)
        context = torch.cat([x, mean.expand_as(x), deviation.expand_as(x)], 1)
        weights = torch.softmax(self.conv(torch.tanh(self.tdnn(context))), 2)
        mean = (weights * x).sum(2, keepdim=True)
        deviation = (weights * (x - mean) ** 2).sum(2, keepdim=True).clamp(min=1e-12).sqrt()
        return torch.cat([mean, deviation], 1)


def _mel_filters() -> Tensor:
    """Return triangular filters [window / 2 + 1, mels]. Both sides have the width toward the lower neighbor."""
    mel = torch.linspace(0, 2595 * float(np.log10(1 + _TOP_HZ / 700)), _MELS + 2)
    centers = (700 * (10 ** (mel / 2595) - 1)).tolist()
    width = torch.tensor([above - below for below, above in pairwise(centers)][:-1])
    slope = (torch.linspace(0, _TOP_HZ, _WINDOW // 2 + 1)[:, None] - torch.tensor(centers[1:-1])) / width
    return torch.minimum(1 + slope, 1 - slope).clamp(min=0)

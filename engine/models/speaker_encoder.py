"""The speaker encoder: a recording in, an x-vector out (SPEC 7). Always float32."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.architecture import SpeakerEncoderArchitecture
from engine.models.mel import log_mel


class SpeakerEncoder:
    """An ECAPA-TDNN over log-mel frames. tensors: the checkpoint's, without ``speaker_encoder.``."""

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: SpeakerEncoderArchitecture, *, device: torch.device
    ) -> None:
        self.architecture, self.device = architecture, device
        self._tensors = {name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}

    def __call__(self, samples: Tensor) -> Tensor:
        """Mono float32 samples [n] at the encoder's rate -> x-vector float32 [width]."""
        x = log_mel(samples.to(self.device), self.architecture.sample_rate, self.architecture.mel_dim)[None]
        x = self._tdnn(x, "blocks.0", self.architecture.dilations[0])
        stages = []
        for block in range(1, len(self.architecture.channels) - 1):
            x = self._se_res2net(x, f"blocks.{block}", self.architecture.dilations[block])
            stages.append(x)
        x = self._tdnn(torch.cat(stages, 1), "mfa", self.architecture.dilations[-1])
        return self._conv(self._attentive_statistics(x), "fc").flatten()

    def _conv(self, x: Tensor, name: str, dilation: int = 1) -> Tensor:
        """A convolution that keeps the length: reflected at both ends."""
        weight = self._tensors[f"{name}.weight"]
        padding = (weight.shape[-1] - 1) * dilation
        if padding:
            x = F.pad(x, (padding // 2, padding - padding // 2), mode="reflect")
        return F.conv1d(x, weight, self._tensors[f"{name}.bias"], dilation=dilation)

    def _tdnn(self, x: Tensor, name: str, dilation: int = 1) -> Tensor:
        return self._conv(x, f"{name}.conv", dilation).relu_()

    def _se_res2net(self, x: Tensor, name: str, dilation: int) -> Tensor:
        y = self._tdnn(x, f"{name}.tdnn1")
        parts = list(y.chunk(self.architecture.res2net_scale, 1))
        for index in range(1, len(parts)):
            above = parts[index] if index == 1 else parts[index] + parts[index - 1]
            parts[index] = self._tdnn(above, f"{name}.res2net_block.blocks.{index - 1}", dilation)
        y = self._tdnn(torch.cat(parts, 1), f"{name}.tdnn2")
        squeezed = self._conv(y.mean(-1, keepdim=True), f"{name}.se_block.conv1").relu_()
        return y * self._conv(squeezed, f"{name}.se_block.conv2").sigmoid_() + x

    def _attentive_statistics(self, x: Tensor) -> Tensor:
        """[1, channels, n] -> weighted mean and deviation over time [1, 2 * channels, 1] (population variance)."""
        mean, deviation = _statistics(x, torch.full_like(x, 1 / x.shape[-1]))
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), 1)
        weights = torch.softmax(self._conv(self._tdnn(context, "asp.tdnn").tanh_(), "asp.conv"), -1)
        return torch.cat(_statistics(x, weights), 1)


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean and deviation over time, [1, channels, 1] each; weights sum to one (population variance)."""
    mean = (weights * x).sum(-1, keepdim=True)
    deviation = (weights * (x - mean).square()).sum(-1, keepdim=True).clamp(min=1e-12).sqrt()
    return mean, deviation

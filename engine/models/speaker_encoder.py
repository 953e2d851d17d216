"""The speaker encoder: a recording in, an x-vector out (SPEC 7). Always float32."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.architecture import SpeakerEncoderArchitecture
from engine.models.mel import LogMel, frames_of
from engine.models.row_ends import Ragged, RowEnds, Together


class SpeakerEncoder:
    """An ECAPA-TDNN over log-mel frames. tensors: the checkpoint's, without ``speaker_encoder.``."""

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: SpeakerEncoderArchitecture, *, device: torch.device
    ) -> None:
        self.architecture, self.device = architecture, device
        self._tensors = {name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}
        self._log_mel = LogMel(architecture.sample_rate, architecture.mel_dim, device)

    def __call__(self, samples: Tensor) -> Tensor:
        """Mono float32 samples [n] at the encoder's rate -> x-vector float32 [width]."""
        return self._encode(samples.to(self.device)[None], Together())[0]

    def batch(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Recordings [rows, n] of ``lengths`` int64 [rows] samples, both on the device -> x-vectors [rows, width].

        Each is what it is alone, but for the order of sums. Nothing waits for the device, so it can be captured.
        """
        return self._encode(samples, Ragged(lengths))

    def _encode(self, samples: Tensor, ends: RowEnds) -> Tensor:
        x, ends = self._log_mel(samples, ends), ends.at(frames_of)
        x = self._tdnn(x, ends, "blocks.0", self.architecture.dilations[0])
        stages = []
        for block in range(1, len(self.architecture.channels) - 1):
            x = self._se_res2net(x, ends, f"blocks.{block}", self.architecture.dilations[block])
            stages.append(x)
        x = self._tdnn(torch.cat(stages, 1), ends, "mfa", self.architecture.dilations[-1])
        return self._pointwise(self._attentive_statistics(x, ends), "fc").squeeze(-1)

    def _conv(self, x: Tensor, ends: RowEnds, name: str, dilation: int = 1) -> Tensor:
        """A convolution that keeps the length: reflected at both ends."""
        weight = self._tensors[f"{name}.weight"]
        padding = (weight.shape[-1] - 1) * dilation
        if padding:
            x = ends.padded(x, padding // 2, padding - padding // 2, "reflect")
        return F.conv1d(x, weight, self._tensors[f"{name}.bias"], dilation=dilation)

    def _pointwise(self, x: Tensor, name: str) -> Tensor:
        return F.conv1d(x, self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"])

    def _tdnn(self, x: Tensor, ends: RowEnds, name: str, dilation: int = 1) -> Tensor:
        return self._conv(x, ends, f"{name}.conv", dilation).relu_()

    def _se_res2net(self, x: Tensor, ends: RowEnds, name: str, dilation: int) -> Tensor:
        y = self._tdnn(x, ends, f"{name}.tdnn1")
        parts = list(y.chunk(self.architecture.res2net_scale, 1))
        for index in range(1, len(parts)):
            above = parts[index] if index == 1 else parts[index] + parts[index - 1]
            parts[index] = self._tdnn(above, ends, f"{name}.res2net_block.blocks.{index - 1}", dilation)
        y = self._tdnn(torch.cat(parts, 1), ends, f"{name}.tdnn2")
        squeezed = self._pointwise(ends.mean(y), f"{name}.se_block.conv1").relu_()
        return y * self._pointwise(squeezed, f"{name}.se_block.conv2").sigmoid_() + x

    def _attentive_statistics(self, x: Tensor, ends: RowEnds) -> Tensor:
        """[rows, channels, n] -> weighted mean and deviation over time [rows, 2 * channels, 1]."""
        mean, deviation = _statistics(x, ends.shares(x))
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), 1)
        scores = self._conv(self._tdnn(context, ends, "asp.tdnn").tanh_(), ends, "asp.conv")
        weights = torch.softmax(ends.filled(scores, float("-inf")), -1)
        return torch.cat(_statistics(x, weights), 1)


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean and deviation over time, [rows, channels, 1]; weights sum to one (population variance)."""
    mean = (weights * x).sum(-1, keepdim=True)
    deviation = (weights * (x - mean).square()).sum(-1, keepdim=True).clamp(min=1e-12).sqrt()
    return mean, deviation

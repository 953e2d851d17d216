"""The ECAPA-TDNN (Desplanques et al., 2020) of SPEC 7, with batch norms for training.

The published model has no norms: conv, norm, ReLU are folded to conv, ReLU (folding.py). Modules have published names.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import SpeakerEncoderArchitecture


class Ecapa(nn.Module):
    """Maps log-mel frames [batch, bands, n] to vectors [batch, width], float32.

    training_norms: add batch norms before the first TDNN, after each TDNN's convolution, and after the last layer.
    """

    def __init__(self, architecture: SpeakerEncoderArchitecture, *, training_norms: bool) -> None:
        super().__init__()
        sizes, channels, last = architecture, architecture.channels, architecture.channels[-1]
        self.blocks = nn.ModuleList(
            [_Tdnn(sizes.mel_dim, channels[0], sizes.kernel_sizes[0], sizes.dilations[0], norm=training_norms)]
            + [_SeRes2Net(sizes, block, norm=training_norms) for block in range(1, len(channels) - 1)]
        )
        self.mfa = _Tdnn(sum(channels[1:-1]), last, sizes.kernel_sizes[-1], sizes.dilations[-1], norm=training_norms)
        self.asp = _AttentiveStatistics(last, sizes.attention_channels, norm=training_norms)
        self.fc = nn.Conv1d(2 * last, sizes.width, 1)
        self.norm_in = _norm(sizes.mel_dim, enabled=training_norms, affine=False)
        self.norm_out = _norm(sizes.width, enabled=training_norms, affine=False)

    def forward(self, mels: Tensor) -> Tensor:
        """Map [batch, bands, n] to [batch, width]. n must be at least five frames."""
        x = self.blocks[0](self.norm_in(mels))
        stages = []
        for block in self.blocks[1:]:
            x = block(x)
            stages.append(x)
        statistics = self.asp(self.mfa(torch.cat(stages, 1)))
        with torch.autocast(mels.device.type, enabled=False):
            return self.norm_out(self.fc(statistics))[:, :, 0]


class _Tdnn(nn.Module):
    def __init__(self, width_in: int, width: int, kernel: int, dilation: int, *, norm: bool) -> None:
        super().__init__()
        self.conv = _conv(width_in, width, kernel, dilation)
        self.norm = _norm(width, enabled=norm)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


class _SeRes2Net(nn.Module):
    """A squeeze-excitation Res2Net block. block: its index in the encoder."""

    def __init__(self, sizes: SpeakerEncoderArchitecture, block: int, *, norm: bool) -> None:
        super().__init__()
        width, kernel, dilation = sizes.channels[block], sizes.kernel_sizes[block], sizes.dilations[block]
        self.tdnn1 = _Tdnn(sizes.channels[block - 1], width, 1, 1, norm=norm)
        self.res2net_block = _Res2Net(width, sizes.res2net_scale, kernel, dilation, norm=norm)
        self.tdnn2 = _Tdnn(width, width, 1, 1, norm=norm)
        self.se_block = _SqueezeExcitation(width, sizes.se_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x)))) + x


class _Res2Net(nn.Module):
    def __init__(self, width: int, scale: int, kernel: int, dilation: int, *, norm: bool) -> None:
        super().__init__()
        part = width // scale
        self.blocks = nn.ModuleList(_Tdnn(part, part, kernel, dilation, norm=norm) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = x.chunk(len(self.blocks) + 1, 1)
        parts = [first]
        for index, (block, part) in enumerate(zip(self.blocks, rest, strict=True)):
            parts.append(block(part if index == 0 else part + parts[-1]))
        return torch.cat(parts, 1)


class _SqueezeExcitation(nn.Module):
    def __init__(self, width: int, squeezed: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(width, squeezed, 1)
        self.conv2 = nn.Conv1d(squeezed, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.conv2(F.relu(self.conv1(x.mean(-1, keepdim=True)))).sigmoid()


class _AttentiveStatistics(nn.Module):
    """Maps [batch, width, n] to weighted mean and standard deviation over time [batch, 2 * width, 1], float32."""

    def __init__(self, width: int, attention: int, *, norm: bool) -> None:
        super().__init__()
        self.tdnn = _Tdnn(3 * width, attention, 1, 1, norm=norm)
        self.conv = nn.Conv1d(attention, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.conv(self._context(x).tanh())
        with torch.autocast(x.device.type, enabled=False):
            return _statistics(x.float(), torch.softmax(scores.float(), -1))

    def _context(self, x: Tensor) -> Tensor:
        """Return the TDNN of [x; mean; deviation]. The last two are constant over time, so they are convolved once."""
        with torch.autocast(x.device.type, enabled=False):
            whole = _statistics(x.float(), torch.full((1, 1, x.shape[-1]), 1 / x.shape[-1], device=x.device))
        conv, width = self.tdnn.conv, x.shape[1]
        moving = F.conv1d(x, conv.weight[:, :width], conv.bias)
        return F.relu(self.tdnn.norm(moving + F.conv1d(whole, conv.weight[:, width:])))


def _statistics(x: Tensor, weights: Tensor) -> Tensor:
    mean = (weights * x).sum(-1, keepdim=True)
    variance = (weights * (x - mean).square()).sum(-1, keepdim=True)
    return torch.cat((mean, variance.clamp(min=1e-12).sqrt()), 1)


def _conv(width_in: int, width: int, kernel: int, dilation: int) -> nn.Conv1d:
    return nn.Conv1d(width_in, width, kernel, dilation=dilation, padding="same", padding_mode="reflect")


def _norm(width: int, *, enabled: bool, affine: bool = True) -> nn.Module:
    return nn.BatchNorm1d(width, affine=affine) if enabled else nn.Identity()

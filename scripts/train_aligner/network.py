"""The aligner's network in torch. ``export`` writes it for server/alignment/network.py."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from server.alignment.features import MELS
from server.alignment.tokens import VOCABULARY, tokens_of

WIDTH = 96
"""Width of the rows that represent frames and tokens."""
_FRAME_CHANNELS = 224
_FRAME_LAYERS = ((5, 1), (3, 1), (3, 2), (3, 4), (3, 8), (3, 4), (3, 2), (3, 1))
"""(taps, dilation) of each convolution over frames of 10 ms. Together they see 0.26 s on each side."""
_TOKEN_CHANNELS = 192
_TOKEN_LAYERS = ((5, 1), (5, 1), (5, 1), (3, 1), (3, 1))
_PHONEMES = 178
"""Symbols of the teacher, for the auxiliary loss."""


class Convolution(nn.Module):
    """A convolution over time without padding effects, a batch norm, and ReLU."""

    def __init__(self, inputs: int, outputs: int, taps: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        padding = (taps - 1) // 2 * dilation
        self.conv = nn.Conv1d(inputs, outputs, taps, dilation=dilation, padding=padding, bias=False)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Return [b, outputs, n] for rows [b, inputs, n]. mask: [b, 1, n], 0 for padding."""
        result: Tensor = torch.relu(self.norm(self.conv(rows))) * mask
        return result

    def folded(self) -> tuple[Tensor, Tensor]:
        """Return the weight [taps, inputs, outputs] and the bias [outputs] with the batch norm included."""
        norm = self.norm
        assert norm.running_mean is not None and norm.running_var is not None
        factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        return (self.conv.weight * factor[:, None, None]).permute(2, 1, 0), norm.bias - norm.running_mean * factor


class Stack(nn.Module):
    """Convolutions, all but the first with a residual connection, and a linear layer."""

    def __init__(self, inputs: int, channels: int, layers: tuple[tuple[int, int], ...], outputs: int) -> None:
        super().__init__()
        sizes = [inputs, *[channels] * (len(layers) - 1)]
        self.convs = nn.ModuleList(
            Convolution(size, channels, *layer) for size, layer in zip(sizes, layers, strict=True)
        )
        self.out = nn.Linear(channels, outputs)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Return [b, n, outputs] for rows [b, n, inputs] and mask [b, n]."""
        hidden, keep = rows.transpose(1, 2), mask[:, None]
        for index, conv in enumerate(self.convs):
            hidden = conv(hidden, keep) + (hidden if index else 0)
        result: Tensor = self.out(hidden.transpose(1, 2))
        return result


class AlignerNetwork(nn.Module):
    """Scores how well each frame fits each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, _TOKEN_CHANNELS)
        self.frames = Stack(MELS, _FRAME_CHANNELS, _FRAME_LAYERS, WIDTH)
        self.tokens = Stack(_TOKEN_CHANNELS, _TOKEN_CHANNELS, _TOKEN_LAYERS, WIDTH + 1)
        self.phonemes = nn.Linear(WIDTH, _PHONEMES)
        with torch.no_grad():
            self.tokens.out.weight.mul_(0.3)
            for lower in string.ascii_lowercase:  # upper case begins as lower case, which is more frequent
                first, second = (int(tokens_of([letter]).ids[1]) for letter in (lower, lower.upper()))
                self.embedding.weight[second] = self.embedding.weight[first]

    def forward(self, features: Tensor, frame_mask: Tensor, ids: Tensor, token_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of the tokens [b, frames, tokens], and logits of the phonemes [b, frames, 178].

        features: [b, frames, MELS]. ids: [b, tokens]. Masks: 1.0, or 0.0 for padding.
        """
        frames = self.frames(features * frame_mask[..., None], frame_mask)
        tokens = self.tokens(self.embedding(ids) * token_mask[..., None], token_mask)
        scores = torch.einsum("btc,bjc->btj", frames, tokens[..., :-1]) + tokens[:, None, :, -1]
        scores = scores.masked_fill(token_mask[:, None] == 0, -1e4)
        return F.log_softmax(scores.float(), dim=-1), self.phonemes(torch.relu(frames))


@torch.no_grad()
def export(network: AlignerNetwork, file: Path) -> None:
    """Write the weights in float16, with the batch norms folded into the convolutions, atomically."""
    arrays: dict[str, Any] = {"embedding": _half(network.embedding.weight)}
    for name, stack in (("frames", network.frames), ("tokens", network.tokens)):
        for index, conv in enumerate(stack.convs):
            assert isinstance(conv, Convolution)
            weight, bias = conv.folded()
            arrays[f"{name}.conv{index}.weight"], arrays[f"{name}.conv{index}.bias"] = _half(weight), _half(bias)
            arrays[f"{name}.conv{index}.dilation"] = np.array(conv.dilation)
        arrays[f"{name}.out.weight"], arrays[f"{name}.out.bias"] = _half(stack.out.weight.T), _half(stack.out.bias)
    temporary = file.with_suffix(".partial")
    with temporary.open("wb") as out:
        np.savez_compressed(out, **arrays)
    temporary.replace(file)


def _half(tensor: Tensor) -> npt.NDArray[np.float16]:
    return tensor.detach().cpu().contiguous().numpy().astype(np.float16)

"""The aligner's network in numpy: one stack of convolutions for log-mel frames, one for the tokens of the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from server.alignment.features import MELS
from server.alignment.tokens import VOCABULARY

_BLOCK = 1000
"""Frames that are encoded at once (10 s), which bounds the memory."""

_LEAST = 1e-30
"""Added to probabilities before their logarithm."""

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """A convolution with "same" padding, followed by ReLU. weight: [taps, inputs, outputs]; taps is odd."""

    weight: Array
    bias: Array
    dilation: int

    @property
    def halo(self) -> int:
        """Rows on each side that an output row depends on."""
        return (len(self.weight) - 1) // 2 * self.dilation

    def __call__(self, rows: Array) -> Array:
        """Return [n, outputs] for rows [n, inputs]."""
        padded = np.pad(rows, ((self.halo, self.halo), (0, 0)))
        result: Array = padded[: len(rows)] @ self.weight[0]
        for tap in range(1, len(self.weight)):
            start = tap * self.dilation
            result += padded[start : start + len(rows)] @ self.weight[tap]
        result += self.bias
        return np.maximum(result, 0.0, out=result)


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Convolutions, all but the first with a residual connection, and a linear layer."""

    convolutions: tuple[Convolution, ...]
    weight: Array
    bias: Array

    @property
    def halo(self) -> int:
        """Rows on each side that an output row depends on."""
        return sum(convolution.halo for convolution in self.convolutions)

    def __call__(self, rows: Array) -> Array:
        """Return [n, width] for rows [n, inputs]."""
        hidden = self.convolutions[0](rows)
        for convolution in self.convolutions[1:]:
            hidden += convolution(hidden)
        result: Array = hidden @ self.weight + self.bias
        return result


class Network:
    """The network. ``scores`` says how well each frame fits each token."""

    def __init__(self, frames: Stack, embedding: Array, tokens: Stack) -> None:
        """embedding: [VOCABULARY, inputs of ``tokens``]. The last column of ``tokens`` is a bias."""
        self._frames, self._embedding, self._tokens = frames, embedding, tokens

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read weights that ``scripts.train_aligner`` wrote. Raises ValueError when they are of another network."""
        with np.load(file, allow_pickle=False) as arrays:
            weights = {name: arrays[name].astype(np.float32) for name in arrays.files}
        embedding = weights["embedding"]
        network = cls(_stack(weights, "frames"), embedding, _stack(weights, "tokens"))
        inputs = network._frames.convolutions[0].weight.shape[1]
        if len(embedding) != VOCABULARY or inputs != MELS:
            message = f"{file} is for {len(embedding)} tokens and {inputs} mels, expected {VOCABULARY} and {MELS}"
            raise ValueError(f"{message}: train it again with scripts.train_aligner")
        return network

    @property
    def halo(self) -> int:
        """Frames on each side that the row of a frame depends on."""
        return self._frames.halo

    @property
    def width(self) -> int:
        """Width of the rows of frames."""
        return len(self._frames.bias)

    def encode_tokens(self, ids: NDArray[np.int64]) -> Array:
        """Return rows [n, width + 1] for token ids [n]."""
        return self._tokens(self._embedding[ids])

    def encode_frames(self, features: Array) -> Array:
        """Return rows [n, width] for log-mel frames [n, MELS]."""
        blocks = [self._frames(block)[skip : skip + count] for block, skip, count in self._blocks(features)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self._frames.bias)), np.float32)

    def _blocks(self, features: Array) -> Iterator[tuple[Array, int, int]]:
        """Yield (block with the rows around it, rows before the block, rows of the block)."""
        halo = self._frames.halo
        for start in range(0, len(features), _BLOCK):
            begin = max(0, start - halo)
            yield features[begin : start + _BLOCK + halo], start - begin, min(_BLOCK, len(features) - start)


def scores(frames: Array, tokens: Array, boundaries: NDArray[np.bool_]) -> Array:
    """Return log-probabilities [n, m] of the tokens for each frame.

    A boundary has the probability of all boundaries together: one silence sounds like another. Otherwise a long pause
    would be drawn to the boundary where the text makes a pause most likely.

    Args:
        frames: [n, width].
        tokens: [m, width + 1].
        boundaries: whether each token is a boundary [m].
    """
    raw: Array = frames @ tokens[:, :-1].T + tokens[:, -1]
    raw -= raw.max(1, keepdims=True)
    likelihoods = np.exp(raw)
    raw -= np.log(likelihoods.sum(1, keepdims=True))
    silence = likelihoods[:, boundaries].sum(1) / likelihoods.sum(1)
    raw[:, boundaries] = np.log(silence + _LEAST)[:, None]
    return raw


def _stack(weights: dict[str, Array], name: str) -> Stack:
    count = sum(key.startswith(f"{name}.conv") and key.endswith(".weight") for key in weights)
    convolutions = tuple(
        Convolution(
            np.ascontiguousarray(weights[f"{name}.conv{index}.weight"]),
            weights[f"{name}.conv{index}.bias"],
            int(weights[f"{name}.conv{index}.dilation"]),
        )
        for index in range(count)
    )
    return Stack(convolutions, weights[f"{name}.out.weight"], weights[f"{name}.out.bias"])

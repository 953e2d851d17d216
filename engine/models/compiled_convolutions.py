"""The convolutions of Code2Wav's decoder on a CPU with 16-bit integers, in one compiled call.

``engine.models.code2wav_blocks`` is the reference implementation. The error is measured by
``benchmarks.cpu.code2wav_precision``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from engine.checkpoint.architecture import DecoderArchitecture
from engine.kernels.compiled.convolution import CONVOLUTION, TAP_LIMIT, WEIGHT_LIMIT, run_convolutions
from engine.kernels.compiled.simd import LANES
from engine.kernels.compiled.team import Team
from engine.models.code2wav_blocks import SnakeBeta, Stage, StateShape, StreamState, upsampling_taps
from engine.models.weights import WeightReader


@dataclass(frozen=True)
class Convolution:
    """A causal convolution of stride 1 after an optional activation.

    weight: float32 [rate * out, in, taps]. The output of a column is that of ``rate`` columns of the next convolution.
    bias: [rate * out]. adds: to the input of the convolution before it, as the second one of a residual unit does.
    """

    weight: Tensor
    bias: Tensor
    activation: SnakeBeta | None = None
    dilation: int = 1
    rate: int = 1
    adds: bool = False


class CompiledConvolutions(Stage):
    """Several convolutions as one stage: each but the first maps the output of the one before it. Not thread-safe.

    convolutions: in the order they run. threads: to compute with.
    """

    def __init__(self, convolutions: Iterable[Convolution], threads: int) -> None:
        self._team = Team(threads)
        self._records = np.zeros(0, CONVOLUTION)
        self._tensors: list[Tensor] = []  # own the memory at the records' addresses
        self._rates: list[int] = []
        """Columns of each convolution's input, for each column of the first one's."""
        self._outputs = self._width = 0
        """Channels of the last output, and with padding."""
        for convolution in convolutions:
            self._append(convolution)
        histories = _histories(self._records)
        self.history = ceil((histories / self._rates).sum())
        codes, scales = int((histories * self._records["inputs"]).sum()), int(histories.sum())
        self.states = [StateShape((codes,), torch.int16), StateShape((scales,))]
        self._buffers = _Buffers(self._records, self._rates, threads, 0, 0)

    def _append(self, convolution: Convolution) -> None:
        weights, scales = _rounded(convolution)
        outputs, inputs, taps = weights.shape
        tensors = [_tiles(weights), scales, _padded(convolution.bias, convolution.rate)]
        if convolution.activation is not None:
            tensors += [F.pad(each, (0, inputs - len(each))) for each in convolution.activation.frequency_and_gain]
        tensors = [each.contiguous() for each in tensors]
        addresses = [each.data_ptr() for each in tensors] + [0, 0]
        record = (*addresses[:5], inputs, outputs // LANES, taps, convolution.dilation, convolution.adds)
        self._records = np.append(self._records, np.array([record], CONVOLUTION))
        self._tensors += tensors
        self._rates.append(self.rate)
        self.rate *= convolution.rate
        self._outputs, self._width = len(convolution.bias) // convolution.rate, outputs // convolution.rate

    @override
    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        streams, columns, channels = x.shape
        buffers = self._buffers = self._buffers.at_least(streams, streams * columns)
        width = int(self._records["inputs"][0])
        source = torch.from_numpy(buffers.values[0])[: streams * columns * width].view(streams, columns, width)
        source[..., :channels] = x
        source[..., channels:] = 0
        before = [state.read().contiguous() for _ in self.states]
        after = [torch.empty_like(each) for each in before]
        state.next += after
        self._team.run(
            run_convolutions,
            self._records,
            streams,
            columns * np.array(self._rates),
            buffers.values,
            buffers.codes,
            buffers.scales,
            buffers.scratch,
            tuple(each.numpy() for each in before),
            tuple(each.numpy() for each in after),
        )
        target = torch.from_numpy(buffers.values[len(self._records) % 2])
        values = target[: streams * columns * self.rate * self._width].view(streams, -1, self._width)
        return values[..., : self._outputs].clone()


def _histories(records: NDArray[np.void]) -> NDArray[np.int64]:
    """Return how many columns before the first one each convolution needs."""
    histories: NDArray[np.int64] = (records["taps"] - 1) * records["dilation"]
    return histories


class _Buffers:
    """Memory for chunks of up to ``streams`` streams, with up to ``columns`` input columns of all of them together."""

    def __init__(self, records: NDArray[np.void], rates: list[int], threads: int, streams: int, columns: int) -> None:
        self._records, self._rates, self._threads = records, rates, threads
        self._streams, self._columns = streams, columns
        counts = columns * np.array(rates)
        rows, inputs = counts + streams * _histories(records), records["inputs"]
        size = (counts * np.maximum(records["tiles"] * LANES, inputs)).max()
        self.values = np.empty(size, np.float32), np.empty(size, np.float32)
        self.codes = np.empty((rows * inputs).max(), np.int16)
        self.scales = np.empty(rows.max(), np.float32)
        self.scratch = np.empty((threads, inputs.max()), np.float32)

    def at_least(self, streams: int, columns: int) -> _Buffers:
        """Return buffers for ``streams`` and ``columns``: self if it is large enough."""
        if streams <= self._streams and columns <= self._columns:
            return self
        streams, columns = max(streams, self._streams), max(columns, self._columns)
        return _Buffers(self._records, self._rates, self._threads, streams, columns)


def decoder_convolutions(weights: WeightReader, architecture: DecoderArchitecture) -> Iterator[Convolution]:
    """Return the convolutions of ``decoder.`` (SPEC 9): the first, those of all blocks, and the last."""

    def load(name: str, snake: str | None = None, *, dilation: int = 1, adds: bool = False) -> Convolution:
        activation = None if snake is None else SnakeBeta(weights, snake)
        weight, bias = weights[f"{name}.conv.weight"], weights[f"{name}.conv.bias"]
        return Convolution(weight, bias, activation, dilation=dilation, adds=adds)

    yield load("decoder.0")
    for index, rate in enumerate(architecture.upsample_rates, start=1):
        block = f"decoder.{index}.block"
        taps = upsampling_taps(weights[f"{block}.1.conv.weight"], rate)
        bias = weights[f"{block}.1.conv.bias"].repeat(rate)
        yield Convolution(taps, bias, SnakeBeta(weights, f"{block}.0"), rate=rate)
        for unit in range(3):
            name = f"{block}.{unit + 2}"
            yield load(f"{name}.conv1", f"{name}.act1", dilation=3**unit)
            yield load(f"{name}.conv2", f"{name}.act2", adds=True)
    last = len(architecture.upsample_rates) + 1
    yield load(f"decoder.{last + 1}", f"decoder.{last}")


def _rounded(convolution: Convolution) -> tuple[Tensor, Tensor]:
    """Return the weights as integers, int16 [outputs, inputs, taps], and their scales [outputs], padded.

    No sum of products of a tap exceeds 32 bits.
    """
    weight = _padded(convolution.weight, convolution.rate)
    weight = F.pad(weight, (0, 0, 0, -weight.shape[1] % LANES))
    magnitudes = weight.abs()
    sums, largest = magnitudes.sum(1).amax(1), magnitudes.amax((1, 2))
    rounding = weight.shape[1] / 2 + 16  # of the codes, and of the sums themselves
    scales = torch.maximum(largest / WEIGHT_LIMIT, sums / (TAP_LIMIT - rounding))
    smallest = torch.finfo(torch.float32).tiny  # for outputs without weights
    return torch.div(weight, scales.clamp_min(smallest)[:, None, None]).round_().short(), scales


def _padded(tensor: Tensor, rate: int) -> Tensor:
    """Return [rate * outputs, ..] with the outputs of each column padded to a multiple of 16."""
    by_column = tensor.unflatten(0, (rate, -1))
    padding = [0, 0] * (tensor.dim() - 1) + [0, -by_column.shape[1] % LANES]
    return F.pad(by_column, padding).flatten(0, 1)


def _tiles(codes: Tensor) -> Tensor:
    """Return [tiles, taps, inputs / 2, 16, 2] of [outputs, inputs, taps]."""
    return codes.unflatten(0, (-1, LANES)).unflatten(2, (-1, 2)).permute(0, 4, 2, 1, 3).contiguous()

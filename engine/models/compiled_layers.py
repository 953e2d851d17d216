"""Decoder layers of the talker and the code predictor on a CPU, in compiled kernels.

``engine.models.qwen3`` is the reference implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.kernels.compiled.layers import DOWN, GATE_UP, MATRIX, OUT, QKV, run_layers
from engine.kernels.compiled.matrix import BFLOAT16, FLOAT, INT4, INT8
from engine.kernels.compiled.simd import LANES
from engine.kernels.compiled.team import Team
from engine.kernels.quantization import GROUP, GroupCodes, RowCodes
from engine.models.qwen3 import Rotary

_Array = NDArray[np.float32]
Codes = RowCodes | GroupCodes | Tensor
"""A matrix [out, in]: quantized, or float32 or bfloat16."""
_TENSORS = ("weights", "scales", "offsets")
MAX_ROWS = 64
"""Rows of a call of the kernel. More rows are divided among several calls."""


class LayerTensors(NamedTuple):
    """The weights of all layers as the kernel reads them. Vectors are padded with zeros to the padded width.

    matrices: ``MATRIX`` [layers, 4]. outputs: ``MATRIX`` of each of the heads that give logits. norms:
    [layers, 2, width], of the attention's and the feed-forward layer's input. gains: [layers, 2, head_dim], of queries
    and keys. cos, sin: [positions, head_dim / 2].
    """

    matrices: NDArray[np.void]
    outputs: NDArray[np.void]
    norms: _Array
    gains: _Array
    final_norm: _Array
    cos: _Array
    sin: _Array
    hidden: int
    heads: int
    kv_heads: int
    epsilon: float


class Buffers(NamedTuple):
    """Memory of the kernel. The first axis of the last seven is the number of a thread; the other first axes are rows.

    scores: a query, and the scores of all positions.
    """

    qkv: _Array
    attended: _Array
    gated: _Array
    normed: _Array
    codes: NDArray[np.int8]
    scales: _Array
    sums: _Array
    out: _Array
    scores: _Array


class TiledMatrix(NamedTuple):
    """A matrix in the layout of ``engine.kernels.compiled.matrix``. Empty tensors are not used by its kind."""

    kind: int
    weights: Tensor
    scales: Tensor
    offsets: Tensor
    inputs: int
    outputs: int

    def record(self) -> tuple[int, ...]:
        """Return the values of ``MATRIX``."""
        addresses = (each.data_ptr() for each in (self.weights, self.scales, self.offsets))
        return (self.kind, *addresses, self.inputs // GROUP, self.outputs // LANES)


def tiled(codes: Codes) -> TiledMatrix:
    """Return a matrix in the kernel's layout. Inputs are padded to a multiple of 32, outputs to one of 16."""
    empty = torch.empty(0)
    if isinstance(codes, GroupCodes):
        outputs, pairs = codes.packed.shape
        weights = _tiles(_interleaved(codes.packed), torch.int32)
        scales, offsets = (_tiles(each, torch.int16) for each in (codes.scales, codes.offsets))
        return TiledMatrix(INT4, weights, scales, offsets, 2 * pairs, outputs)
    if isinstance(codes, RowCodes):
        weights = _padded(codes.codes)
        scales = F.pad(codes.scales, (0, len(weights) - len(codes.scales)))
        return TiledMatrix(INT8, _tiles(weights, torch.int16), scales, empty, weights.shape[1], len(weights))
    weights = _padded(codes)
    kind = BFLOAT16 if weights.dtype == torch.bfloat16 else FLOAT
    return TiledMatrix(kind, _tiles(weights, torch.int32), empty, empty, weights.shape[1], len(weights))


def _padded(matrix: Tensor) -> Tensor:
    outputs, inputs = matrix.shape
    return F.pad(matrix, (0, -inputs % GROUP, 0, -outputs % LANES)).contiguous()


def _tiles(matrix: Tensor, unit: torch.dtype) -> Tensor:
    """Return [out / 16, units of a row, 16] of a matrix [out, ..]. unit: the dtype whose size is that of a unit."""
    return matrix.contiguous().view(unit).unflatten(0, (-1, LANES)).transpose(1, 2).contiguous()


def _interleaved(packed: Tensor) -> Tensor:
    """Return packed codes uint8 [out, in / 2] in the order of ``integer_dots``.

    The eight codes 0, 1, .., 7 of each word of 32 bits become 0, 4, 1, 5, 2, 6, 3, 7. That is the perfect shuffle of
    its halves, in two steps: swap the middle bytes, then the middle codes of each half.
    """
    words = packed.contiguous().view(torch.int32)
    for shift, mask in ((8, 0x0000FF00), (4, 0x00F000F0)):
        different = (words >> shift).bitwise_xor_(words).bitwise_and_(mask)
        words = (different << shift).bitwise_xor_(different).bitwise_xor_(words)
    return words.view(torch.uint8)


def gate_and_up(gate: Codes, up: Codes) -> TiledMatrix:
    """Return a matrix whose tiles are in turn those of ``gate`` and of ``up``, which have the same format."""
    first, second = tiled(gate), tiled(up)
    if first.kind != second.kind:
        raise ValueError(f"gate and up must have the same format, got {first.kind} and {second.kind}")

    def alternate(one: Tensor, other: Tensor) -> Tensor:
        if not one.numel():
            return one
        by_tile = [each.view(first.outputs // LANES, -1) for each in (one, other)]
        return torch.stack(by_tile, 1).contiguous()

    weights, scales, offsets = (alternate(getattr(first, name), getattr(second, name)) for name in _TENSORS)
    return TiledMatrix(first.kind, weights, scales, offsets, first.inputs, 2 * first.outputs)


class LayerSource(NamedTuple):
    """The tensors of a layer. norms: of the attention's and the feed-forward layer's input. gains: of queries, keys."""

    qkv: Codes
    out: Codes
    gate: Codes
    up: Codes
    down: Codes
    norms: tuple[Tensor, Tensor]
    gains: tuple[Tensor, Tensor]


class CompiledLayers:
    """All layers, the final norm and any heads, with the layers' keys and values. Not thread-safe.

    ``set_layer`` and ``set_final_norm`` set the weights.

    slots: number of sequences whose keys and values are kept. positions: of a sequence. team: the threads that compute.
    threads: of the team, for calls that do not say how many. heads: matrices [out, hidden] of equal shape, float32
    or bfloat16.
    """

    def __init__(
        self,
        shape: Transformer,
        *,
        slots: int,
        positions: int,
        team: Team,
        threads: int | None = None,
        heads: Sequence[Tensor] = (),
    ) -> None:
        self.shape, self.team = shape, team
        self._threads = threads or team.size
        self._width = _padded_width(shape.hidden)
        self._matrices: dict[tuple[int, int], TiledMatrix] = {}  # owns the memory at the records' addresses
        self._heads = [tiled(head) for head in heads]
        self._outputs = len(heads[0]) if heads else 0
        half = shape.head_dim // 2
        rotary = Rotary(shape.head_dim, shape.rope_theta, positions, torch.device("cpu"), torch.float32)
        self._model = LayerTensors(
            np.zeros((shape.layers, 4), MATRIX),
            np.array([head.record() for head in self._heads], MATRIX),
            np.zeros((shape.layers, 2, self._width), np.float32),
            np.zeros((shape.layers, 2, shape.head_dim), np.float32),
            np.zeros(self._width, np.float32),
            rotary.cos[:, :half].contiguous().numpy(),
            rotary.sin[:, half:].contiguous().numpy(),
            shape.hidden,
            shape.heads,
            shape.kv_heads,
            shape.eps,
        )
        size = (shape.layers, slots, shape.kv_heads, positions, shape.head_dim)
        # The OS commits memory as positions fill, so a long context costs no memory until it is used. Not with
        # numpy.empty, which asks for pages of 2 MB.
        self._cache = torch.empty(size).numpy(), torch.empty(size).numpy()
        self._buffers = _buffers(shape, positions, team.size)

    def set_layer(self, number: int, layer: LayerSource) -> None:
        """Set the weights of a layer."""
        parts = {QKV: tiled(layer.qkv), OUT: tiled(layer.out), DOWN: tiled(layer.down)}
        parts[GATE_UP] = gate_and_up(layer.gate, layer.up)
        for index, matrix in parts.items():
            self._model.matrices[number, index] = matrix.record()
            self._matrices[number, index] = matrix
        for index in range(2):
            self._model.norms[number, index, : self.shape.hidden] = layer.norms[index].numpy()
            self._model.gains[number, index] = layer.gains[index].numpy()

    def set_final_norm(self, norm: Tensor) -> None:
        """Set the weight of the final norm, [hidden]."""
        self._model.final_norm[: self.shape.hidden] = norm.numpy()

    def __call__(
        self, x: Tensor, slots: NDArray[np.int64], positions: NDArray[np.int64], *, threads: int | None = None
    ) -> Tensor:
        """Run rows float32 [rows, hidden] at ``positions`` of ``slots``; return hidden states [rows, hidden].

        Rows of one slot must be in the order of their positions, without gaps, from the end of its cache on.
        threads: of the team, to compute with.
        """
        return self._run(x, slots, positions, -1, 1, self._width, threads or self._threads)[:, : self.shape.hidden]

    def logits(
        self,
        x: Tensor,
        slots: NDArray[np.int64],
        positions: NDArray[np.int64],
        head: int,
        every: int = 1,
        *,
        threads: int | None = None,
    ) -> Tensor:
        """Run rows as ``__call__`` does; return a head's product with the last of every ``every`` rows.

        every: a divisor of the number of rows and of ``MAX_ROWS``.
        """
        width = self._heads[head].outputs
        return self._run(x, slots, positions, head, every, width, threads or self._threads)[:, : self._outputs]

    def _run(
        self,
        x: Tensor,
        slots: NDArray[np.int64],
        positions: NDArray[np.int64],
        head: int,
        every: int,
        width: int,
        threads: int,
    ) -> Tensor:
        y = np.empty((len(x) // every, width), np.float32)
        for start in range(0, len(x), MAX_ROWS):
            rows, outputs = slice(start, start + MAX_ROWS), slice(start // every, (start + MAX_ROWS) // every)
            block = np.zeros((len(x[rows]), self._width), np.float32)
            block[:, : self.shape.hidden] = x[rows].numpy()
            self.team.run(
                run_layers,
                self._model,
                self._cache,
                block,
                slots[rows],
                positions[rows],
                self._buffers,
                head,
                every,
                y[outputs],
                threads=threads,
            )
        return torch.from_numpy(y)


def _padded_width(width: int, unit: int = GROUP) -> int:
    return width + -width % unit


def _buffers(shape: Transformer, positions: int, threads: int) -> Buffers:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    width, attended, gated = (_padded_width(each) for each in (shape.hidden, queries, shape.intermediate))
    widest = max(width, attended, gated)

    def zeros(*size: int) -> _Array:
        return np.zeros(size, np.float32)

    return Buffers(
        qkv=zeros(MAX_ROWS, _padded_width(queries + 2 * keys, LANES)),
        attended=zeros(MAX_ROWS, attended),
        gated=zeros(MAX_ROWS, gated),
        normed=zeros(threads, MAX_ROWS, width),
        codes=np.zeros((threads, MAX_ROWS * widest * 2), np.int8),
        scales=zeros(threads, MAX_ROWS, widest // GROUP),
        sums=zeros(threads, MAX_ROWS, widest // GROUP),
        out=zeros(threads, 2, 4 * LANES),
        scores=zeros(threads, shape.head_dim + positions + LANES),
    )

"""The code predictor as one CUDA kernel launch per frame, for larger batches: products with wgmma on Hopper GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.protocol.request import CODEBOOKS
from engine.talker.fused.arguments import Launch, fill
from engine.talker.fused.persistent import Sizes
from engine.talker.fused.weights import PredictorWeights
from engine.talker.gpu_step.frame_sampler import RngKey
from engine.talker.sampling_params import COLUMN_INDEX, SamplingTensors

MAX_ROWS = 256
"""Maximum rows of one launch."""
KERNEL = "predict_frame"
_KERNELS: tuple[dict[str, int], ...] = (
    {"rows": 32, "row_slots": 8},
    {"groups": 2, "rows": 32, "parts": 4, "row_slots": 8, "weights_in_flight": 2},
    {"groups": 2, "rows": 64, "parts": 4, "row_slots": 4, "weights_in_flight": 6},
    {"groups": 2, "rows": 128, "parts": 4, "row_slots": 3, "weights_in_flight": 5},
)
"""The fields of ``BatchedSizes`` of each kernel, in ascending order of its rows; chosen by their times on an H100."""
_DEPTH = 128
"""Columns of a stage of the ring buffers."""
_SHARED_BYTES = 227 * 1024 - 4096
"""Shared memory of a block for ring buffers."""


@dataclass(frozen=True)
class BatchedSizes:
    """A model's sizes, and how the blocks of the kernel share the work.

    groups: parts of the grid that compute different rows, up to ``rows`` each. parts: how many blocks of a group share
    the columns of the project, out and down matrices. packed_parts: the same in the packed matrices. row_slots: stages
    of the ring buffer for rows. weights_in_flight: how many stages of weights may be in flight.
    """

    shape: Transformer
    vocab: int
    codebooks: int
    talker_hidden: int
    groups: int = 1
    rows: int = 32
    parts: int = 8
    packed_parts: int = 8
    blocks: int = 128
    warps: int = 12
    row_slots: int = 4
    weights_in_flight: int = 1

    @property
    def projects(self) -> bool:
        """Whether the talker's hidden size differs from the predictor's, so that a projection is needed."""
        return self.talker_hidden != self.shape.hidden

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.warps * 32

    @property
    def max_rows(self) -> int:
        """Maximum rows of a batch."""
        return self.groups * self.rows

    @property
    def weight_slots(self) -> int:
        """Stages of weights that fit the shared memory that stages of rows leave."""
        blocks, shape = self.blocks // self.groups, self.shape
        outputs = max(2 * shape.intermediate // blocks, shape.hidden * self.parts // blocks, self.vocab // blocks,
                      (shape.heads + 2 * shape.kv_heads) * shape.head_dim // blocks)  # fmt: skip
        return (_SHARED_BYTES // (2 * _DEPTH) - self.row_slots * self.rows) // outputs

    def macros(self) -> list[str]:
        """Return the compiler options of the kernel."""
        shape = self.shape
        named: dict[str, object] = {
            "HIDDEN": shape.hidden, "INNER": shape.intermediate, "LAYERS": shape.layers, "HEADS": shape.heads,
            "KV_HEADS": shape.kv_heads, "HEAD_DIM": shape.head_dim, "VOCAB": self.vocab, "CODEBOOKS": self.codebooks,
            "TALKER": self.talker_hidden, "PROJECT": int(self.projects), "CTAS": self.blocks, "WARPS": self.warps,
            "GROUPS": self.groups, "ROWS": self.rows, "PARTS": self.parts, "PACKED_PARTS": self.packed_parts,
            "ROW_SLOTS": self.row_slots, "WEIGHT_SLOTS": self.weight_slots,
            "WEIGHTS_IN_FLIGHT": self.weights_in_flight,
            "SOFTMAX_SCALE": f"{shape.head_dim**-0.5:.9f}f", "UNIFORMS_PER_FRAME": CODEBOOKS,
        }  # fmt: skip
        named |= {f"COLUMN_{name.upper()}": column for name, column in COLUMN_INDEX.items()}
        return [f"-D{name}={value}" for name, value in named.items()]


def kernels_for(sizes: Sizes, batches: Sequence[int]) -> list[BatchedSizes]:
    """Return the kernels for ``batches`` (row counts up to MAX_ROWS in ascending order) of a model with ``sizes``."""
    model = BatchedSizes(sizes.shape, sizes.vocab, sizes.codebooks, sizes.talker_hidden)
    kernels = [replace(model, **each) for each in _KERNELS]  # type: ignore[arg-type]  # fields of int
    return [each for each in kernels if any(_kernel_for(kernels, rows) is each for rows in batches)]


def _kernel_for(kernels: Iterable[BatchedSizes], rows: int) -> BatchedSizes:
    return next(each for each in kernels if rows <= each.max_rows)


def pack_tiles(matrix: Tensor, outputs: int) -> Tensor:
    """Pack a matrix [out, in] as [out / outputs, in / 128, outputs / 8, 2, 8, 64]: the stages of every tile.

    The eight rows of 64 columns are stored with a 128-byte swizzle: 16-byte chunk i of row r is at chunk i ^ r.
    """
    tiles = matrix.view(len(matrix) // outputs, outputs // 8, 8, -1, 2, 8, 8).permute(0, 3, 1, 4, 2, 5, 6)
    chunk = torch.arange(8, device=matrix.device)
    return tiles.gather(5, (chunk ^ chunk[:, None])[:, :, None].expand(tiles.shape)).flatten(5)


def alternate_octs(gate_up: Tensor) -> Tensor:
    """Reorder the rows so that eight gate rows are followed by their eight up rows."""
    return gate_up.unflatten(0, (2, -1, 8)).transpose(0, 1).flatten(0, 2)


def pack_matrices(weights: PredictorWeights, sizes: BatchedSizes) -> Tensor:
    """Pack all matrices in the order in which a pass reads them."""
    blocks, split, parts = sizes.blocks, sizes.packed_parts, []

    def add(matrix: Tensor, columns_parts: int) -> None:
        parts.append(pack_tiles(matrix, len(matrix) * columns_parts // blocks).flatten())

    if weights.project is not None:
        add(weights.project, split)
    for layer in range(weights.shape.layers):
        add(weights.qkv[layer], 1)
        add(weights.out[layer], split)
        add(alternate_octs(weights.gate_up[layer]), 1)
        add(weights.down[layer], split)
    for matrix in weights.heads:
        add(matrix, 1)
    return torch.cat(parts)


_WEIGHTS = ("input_norm", "post_norm", "q_norm", "k_norm", "norm", "cos", "sin", "inputs", "tables", "offsets")
_POINTERS = (
    "matrices input_norm post_norm q_norm k_norm norm bias cos sin inputs tables offsets hidden first int_params "
    "float_params seeds frames forced hidden_tiles normed attended inner keys values qkv partial logits codes "
    "embedding barrier"
).split()
_BARRIER_WORDS = 1024


class Params(ctypes.Structure):
    """The kernel's argument struct; must match ``Params`` in the CUDA source (cuda/batched_sizes.h)."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("rows", ctypes.c_int),
        ("eps", ctypes.c_float),
    ]


class BatchedCodes:
    """``ResidualCodes`` for batches of up to the largest of ``kernels``. Each call overwrites the returned buffers.

    kernels: the kernels' sizes, in ascending order of ``max_rows``, and the functions that launch them. They share one
    packed copy of the matrices; the matrices of ``weights`` are not kept. ``logits`` [codebooks - 1, rows, vocab] are
    those of the last call with ``forced`` codes.
    """

    def __init__(self, weights: PredictorWeights, kernels: Mapping[BatchedSizes, Launch]) -> None:
        shape, sizes = weights.shape, list(kernels)
        self._kernels, self._eps, rows = kernels, shape.eps, sizes[-1].max_rows
        self._vocab, self._books = weights.vocab, weights.codebooks - 1

        def float32(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.float32, device=weights.device)

        def bfloat16(*size: int) -> Tensor:
            return torch.zeros(size, device=weights.device, dtype=weights.dtype)

        cache = (shape.layers, rows, shape.kv_heads, weights.codebooks, shape.head_dim)
        self._logits = float32(self._books * rows * weights.vocab)
        self._codes = torch.zeros(rows, weights.codebooks, device=weights.device, dtype=torch.int64)
        self._embedding = bfloat16(rows, weights.talker_hidden)
        self._fixed: dict[str, Tensor | None] = {
            "matrices": pack_matrices(weights, sizes[0]), "bias": weights.project_bias,
            "hidden_tiles": bfloat16(rows, weights.talker_hidden), "normed": bfloat16(rows, shape.hidden),
            "attended": bfloat16(rows, shape.heads * shape.head_dim), "inner": bfloat16(rows, shape.intermediate),
            "keys": bfloat16(*cache), "values": bfloat16(*cache),
            "qkv": float32(rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim),
            "partial": float32(max(each.parts * each.max_rows for each in sizes), shape.hidden),
            "logits": self._logits, "codes": self._codes, "embedding": self._embedding,
            "barrier": torch.zeros(_BARRIER_WORDS, device=weights.device, dtype=torch.int32),
        }  # fmt: skip
        self._fixed |= {name: getattr(weights, name) for name in _WEIGHTS}
        self._rows = rows

    def logits(self, rows: int) -> Tensor:
        """Return the logits [codebooks - 1, rows, vocab] of the last call, which had ``rows`` rows and forced codes."""
        return self._logits[: self._books * rows * self._vocab].view(self._books, rows, self._vocab)

    def __call__(
        self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey, forced: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample codebooks 1 to 15 as ``ResidualCodes`` requires.

        forced: int64 [rows, codebooks], codes used instead of sampled ones (teacher forcing).
        """
        rows = len(hidden)
        tensors = {
            "hidden": hidden, "first": first, "forced": forced, **params._asdict(), **rng._asdict(), **self._fixed,
        }  # fmt: skip
        arguments = Params(rows=rows, eps=self._eps)
        fill(arguments, tensors)
        self._kernels[_kernel_for(self._kernels, rows)](arguments)
        return self._codes[:rows], self._embedding[:rows]

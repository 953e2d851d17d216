"""The code predictor as one persistent CUDA kernel launch per frame, for small batches: used with fp8 weights."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.protocol.request import CODEBOOKS
from engine.talker.fused.arguments import Launch, fill
from engine.talker.fused.fp8 import bfloat16_factor, fp8_scale, pack_fp8
from engine.talker.fused.weights import PredictorWeights
from engine.talker.gpu_step.frame_sampler import RngKey
from engine.talker.sampling_params import COLUMN_INDEX, SamplingTensors


def pack(weights: PredictorWeights, sizes: Sizes) -> Tensor:
    """Pack all matrices into streams [blocks, warps, units, 256]: each warp's share in the order it is read."""
    project, qkv, out, gate_up, down, head = sizes.slices
    parts = []
    if weights.project is not None:
        parts.append(_share(weights.project, sizes, project))
    for layer in range(weights.shape.layers):
        parts.append(_share(weights.qkv[layer], sizes, qkv))
        parts.append(_share(weights.out[layer], sizes, out))
        parts.append(_share(_paired(weights.gate_up[layer], sizes.blocks), sizes, gate_up))
        parts.append(_share(weights.down[layer], sizes, down))
    parts += [_share(matrix, sizes, head) for matrix in weights.heads]
    return torch.cat(parts, 2)


def _paired(gate_up: Tensor, blocks: int) -> Tensor:
    """Reorder the rows so that each block has its gate rows followed by the matching up rows."""
    gate, up = gate_up.unflatten(0, (2, blocks, -1))
    return torch.cat((gate, up), 1).flatten(0, 1)


def _share(matrix: Tensor, sizes: Sizes, slices: int) -> Tensor:
    """Split a matrix [out, in] into [blocks, warps, units, 256]. A unit is 8 rows of 32 columns."""
    groups = sizes.warps // slices
    octs = matrix.shape[0] // 8 // sizes.blocks
    split = matrix.view(sizes.blocks, groups, octs // groups, 8, slices, matrix.shape[1] // 32 // slices, 4, 8)
    ordered = split.permute(0, 4, 1, 5, 2, 3, 6, 7)
    return ordered.reshape(sizes.blocks, sizes.warps, -1, 256)


_SHAPE = Transformer(
    hidden=1024, intermediate=3072, layers=5, heads=16, kv_heads=8, head_dim=128, rope_theta=1e6, eps=1e-6
)
_VOCAB, _CODEBOOKS, _TALKER_WIDTHS = 2048, 16, (1024, 2048)


MAX_ROWS = 16
"""Maximum rows of one launch."""
KERNELS = (1, MAX_ROWS)
"""Maximum rows of each compiled kernel.

The kernel for one row repeats attention and sampling in every block, which saves grid-wide barriers.
"""


def kernel_for(rows: int) -> int:
    """Return the smallest entry of KERNELS that supports ``rows``."""
    return next(max_rows for max_rows in KERNELS if rows <= max_rows)


@dataclass(frozen=True)
class Sizes:
    """A model's sizes, and how the grid partitions the work.

    ring: capacity, in pairs of units, of each warp's ring buffer for prefetched weights; slices: how many parts the
    columns of the project, qkv, out, gate_up, down and head matrices are split into; fp8: the matrices are in fp8.
    """

    shape: Transformer
    vocab: int
    codebooks: int
    talker_hidden: int
    blocks: int = 128
    warps: int = 16
    ring: int = 10
    slices: tuple[int, int, int, int, int, int] = (16, 4, 16, 8, 16, 8)
    fp8: bool = False

    @property
    def projects(self) -> bool:
        """Whether the talker's hidden size differs from the predictor's, so that a projection is needed."""
        return self.talker_hidden != self.shape.hidden

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.warps * 32

    def macros(self, rows: int) -> list[str]:
        """Return the compiler options of the kernel for up to ``rows`` rows, which must be one of KERNELS."""
        shape = self.shape
        named: dict[str, object] = {
            "HIDDEN": shape.hidden, "INNER": shape.intermediate, "LAYERS": shape.layers, "HEADS": shape.heads,
            "KV_HEADS": shape.kv_heads, "HEAD_DIM": shape.head_dim, "VOCAB": self.vocab, "CODEBOOKS": self.codebooks,
            "TALKER": self.talker_hidden, "PROJECT": int(self.projects), "CTAS": self.blocks, "WARPS": self.warps,
            "STAGES": self.ring, "FP8": int(self.fp8), "FUSED": int(rows == 1),
            "SOFTMAX_SCALE": f"{shape.head_dim**-0.5:.9f}f", "UNIFORMS_PER_FRAME": CODEBOOKS,
        }  # fmt: skip
        parts = ("PROJECT", "QKV", "OUT", "GATE_UP", "DOWN", "HEAD")
        named |= {f"SLICES_{part}": each for part, each in zip(parts, self.slices, strict=True)}
        named |= {f"COLUMN_{name.upper()}": column for name, column in COLUMN_INDEX.items()}
        return [f"-D{name}={value}" for name, value in named.items()]


def published_sizes(shape: Transformer, vocab: int, codebooks: int, talker_hidden: int) -> Sizes | None:
    """Return the sizes of the published code predictor, for either hidden size of the talker; None for other models."""
    comparable = replace(shape, rope_theta=_SHAPE.rope_theta, eps=_SHAPE.eps)
    known = (comparable, vocab, codebooks) == (_SHAPE, _VOCAB, _CODEBOOKS) and talker_hidden in _TALKER_WIDTHS
    return Sizes(shape, vocab, codebooks, talker_hidden) if known else None


CUDA = Path(__file__).parent / "cuda"
"""The kernel's source: persistent.cu and its headers."""
KERNEL = "predict_frame"
_WEIGHTS = ("input_norm", "post_norm", "q_norm", "k_norm", "norm", "cos", "sin", "inputs", "tables", "offsets")
_POINTERS = (
    "stream input_norm post_norm q_norm k_norm norm bias cos sin inputs tables offsets hidden first int_params "
    "float_params seeds frames forced x qkv attended inner keys values logits codes embedding barrier"
).split()
_BARRIER_WORDS = 1024


class Params(ctypes.Structure):
    """The kernel's argument struct; must match ``Params`` in the CUDA source (cuda/sizes.h)."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("rows", ctypes.c_int),
        ("eps", ctypes.c_float),
        ("fp8_factor", ctypes.c_uint),
    ]


class PersistentCodes:
    """``ResidualCodes`` for up to MAX_ROWS rows. Each call overwrites the returned buffers.

    launches: maps each entry of KERNELS to the function that launches it. The kernel has its own packed copy of the
    matrices; the matrices of ``weights`` are not kept. If ``sizes.fp8`` is set, ``weights`` must be the output of
    ``round_to_fp8``.
    """

    def __init__(self, weights: PredictorWeights, sizes: Sizes, launches: Mapping[int, Launch]) -> None:
        shape, rows = weights.shape, MAX_ROWS
        self._launches, self._eps, self._fp8_factor = launches, shape.eps, 0
        stream = pack(weights, sizes)
        if sizes.fp8:
            scale = fp8_scale(weights)
            stream, self._fp8_factor = pack_fp8(stream, scale), bfloat16_factor(scale)

        def float32(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.float32, device=weights.device)

        def bfloat16(*size: int) -> Tensor:
            return torch.zeros(size, device=weights.device, dtype=weights.dtype)

        cache = (shape.layers, rows, shape.kv_heads, weights.codebooks, shape.head_dim)
        self.logits = float32(rows, weights.codebooks - 1, weights.vocab)
        self._codes = torch.zeros(rows, weights.codebooks, device=weights.device, dtype=torch.int64)
        self._embedding = bfloat16(rows, weights.talker_hidden)
        self._fixed: dict[str, Tensor | None] = {
            "stream": stream, "bias": weights.project_bias,
            "x": float32(rows, shape.hidden),
            "qkv": float32(rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim),
            "attended": bfloat16(rows, shape.heads * shape.head_dim), "inner": bfloat16(rows, shape.intermediate),
            "keys": bfloat16(*cache), "values": bfloat16(*cache),
            "logits": self.logits, "codes": self._codes, "embedding": self._embedding,
            "barrier": torch.zeros(_BARRIER_WORDS, device=weights.device, dtype=torch.int32),
        }  # fmt: skip
        self._fixed |= {name: getattr(weights, name) for name in _WEIGHTS}

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
        arguments = Params(rows=rows, eps=self._eps, fp8_factor=self._fp8_factor)
        fill(arguments, tensors)
        self._launches[kernel_for(rows)](arguments)
        return self._codes[:rows], self._embedding[:rows]

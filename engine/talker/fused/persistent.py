"""The code predictor in one launch a frame, for a few rows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.talker.fused.eight_bits import narrowed, scale_of, unit
from engine.talker.fused.packing import pack
from engine.talker.fused.sizes import MOST_ROWS, Sizes, kernel_for
from engine.talker.fused.weights import PredictorWeights
from engine.talker.resident.residual import Chance
from engine.talker.resident.row_draws import RowDraws

CUDA = Path(__file__).parent / "cuda"
"""The kernel's source: persistent.cu and its headers."""
KERNEL = "predict_frame"
_READ = ("input_norm", "post_norm", "q_norm", "k_norm", "norm", "cos", "sin", "inputs", "tables", "offsets")
_POINTERS = (
    "stream input_norm post_norm q_norm k_norm norm bias cos sin inputs tables offsets hidden first temperature top_k "
    "top_p seeds frames forced x qkv mixed inner keys values logits codes embedding barrier"
).split()
_BARRIER_WORDS = 1024


class Params(ctypes.Structure):
    """``Params`` of persistent.cu."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("rows", ctypes.c_int),
        ("eps", ctypes.c_float),
        ("unit", ctypes.c_uint),
    ]


Launch = Callable[[Params], None]


class PersistentCodes:
    """``ResidualCodes`` of up to MOST_ROWS rows. Its buffers are overwritten by each call.

    launches: one of KERNELS -> what starts it. Of ``weights`` no matrix is kept: the kernel has its own copy of them.
    Where ``sizes`` say eight bits, weights are ``rounded``.
    """

    def __init__(self, weights: PredictorWeights, sizes: Sizes, launches: Mapping[int, Launch]) -> None:
        shape, rows = weights.shape, MOST_ROWS
        self._launches, self._eps, self._unit = launches, shape.eps, 0
        stream = pack(weights, sizes)
        if sizes.fp8:
            scale = scale_of(weights)
            stream, self._unit = narrowed(stream, scale), unit(scale)

        def floats(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.float32, device=weights.device)

        def narrow(*size: int) -> Tensor:
            return torch.zeros(size, device=weights.device, dtype=weights.dtype)

        cache = (shape.layers, rows, shape.kv_heads, weights.books, shape.head_dim)
        self.logits = floats(rows, weights.books - 1, weights.vocab)
        self._codes = torch.zeros(rows, weights.books, device=weights.device, dtype=torch.int64)
        self._embedding = narrow(rows, weights.talker_hidden)
        self._fixed: dict[str, Tensor | None] = {
            "stream": stream, "bias": weights.project_bias,
            "x": floats(rows, shape.hidden), "qkv": floats(rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim),
            "mixed": narrow(rows, shape.heads * shape.head_dim), "inner": narrow(rows, shape.intermediate),
            "keys": narrow(*cache), "values": narrow(*cache),
            "logits": self.logits, "codes": self._codes, "embedding": self._embedding,
            "barrier": torch.zeros(_BARRIER_WORDS, device=weights.device, dtype=torch.int32),
        }  # fmt: skip
        self._fixed |= {name: getattr(weights, name) for name in _READ}

    def __call__(
        self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: Chance, forced: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``ResidualCodes``. forced: int64 [rows, books], taken instead of what would be drawn."""
        rows = len(hidden)
        tensors = {
            "hidden": hidden, "first": first, "forced": forced, "seeds": chance.seeds, "frames": chance.frames,
            **draws._asdict(), **self._fixed,
        }  # fmt: skip
        params = Params(rows=rows, eps=self._eps, unit=self._unit)
        for name, tensor in tensors.items():
            if tensor is not None and not tensor.is_contiguous():
                raise ValueError(f"{name} has gaps")
            setattr(params, name, 0 if tensor is None else tensor.data_ptr())
        self._launches[kernel_for(rows)](params)
        return self._codes[:rows], self._embedding[:rows]

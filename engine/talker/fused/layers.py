"""The talker's decoder layers as one CUDA kernel launch, for small steps, on Hopper GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.talker.fused.arguments import Launch, fill

MAX_ROWS = 16
"""Maximum rows without prompts. More would hold the GPU for longer (docs/explanation/decisions/talker-layers.md)."""
MAX_PROMPT_ROWS = 64
"""Maximum rows of a step with prompts."""
MAX_POSITIONS = 1024
"""Maximum positions of a row of ``RowLayers``. One program reads all of them, so the other rows wait for a long one."""
KERNEL = "run_layers"
PAGE = 16
"""Positions per block of the KV cache."""
_DEPTH = 128
"""Columns of a stage of the ring buffers."""
_SHARED_BYTES = 227 * 1024 - 12288
"""Shared memory of a block for ring buffers."""


@dataclass(frozen=True)
class LayerSizes:
    """A model's sizes, and how the blocks of a kernel share the work; chosen by times on an H100.

    rows: maximum rows of a launch. prompts: whether rows may be of one prompt, and attend to each other. parts: how
    many blocks share the columns of the out and down matrices. qkv_parts: the same for the qkv matrix. split_pages:
    pages of a row that one block attends to. row_slots: stages of the ring buffer for rows. weights_in_flight: how many
    stages of weights may be in flight.
    """

    shape: Transformer
    rows: int = MAX_ROWS
    prompts: bool = False
    parts: int = 4
    qkv_parts: int = 2
    blocks: int = 128
    warps: int = 12
    split_pages: int = 32
    row_slots: int = 4
    weights_in_flight: int = 1

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.warps * 32

    @property
    def outputs(self) -> tuple[int, int, int, int]:
        """Outputs of a block of the qkv, out, gate_up and down matrices."""
        shape = self.shape
        qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_dim * self.qkv_parts
        hidden = shape.hidden * self.parts
        return qkv // self.blocks, hidden // self.blocks, 2 * shape.intermediate // self.blocks, hidden // self.blocks

    @property
    def weight_slots(self) -> int:
        """Stages of weights that fit the shared memory that stages of rows leave."""
        return (_SHARED_BYTES // (2 * _DEPTH) - self.row_slots * self.rows) // max(self.outputs)

    @property
    def problem(self) -> str | None:
        """Why the kernel does not support the model's sizes; None if it does."""
        shape, blocks = self.shape, self.blocks
        if shape.head_dim != 128 or shape.heads != 2 * shape.kv_heads:
            return f"heads must have 128 dimensions and share keys in pairs, got {shape}"
        inputs = (shape.hidden // self.qkv_parts, shape.heads * 128 // self.parts, shape.hidden,
                  shape.intermediate // self.parts)  # fmt: skip
        whole = (shape.heads * 256 * self.qkv_parts, shape.hidden * self.parts, 2 * shape.intermediate)
        if any(each % (16 * blocks) for each in whole) or any(each % _DEPTH for each in inputs):
            return f"the matrices do not divide among {blocks} blocks, got {shape}"
        return None

    def macros(self) -> list[str]:
        """Return the compiler options of the kernel."""
        shape = self.shape
        named: dict[str, object] = {
            "HIDDEN": shape.hidden, "INNER": shape.intermediate, "LAYERS": shape.layers, "HEADS": shape.heads,
            "KV_HEADS": shape.kv_heads, "HEAD_DIM": shape.head_dim, "CTAS": self.blocks, "WARPS": self.warps,
            "GROUPS": 1, "ROWS": self.rows, "PROMPTS": int(self.prompts), "PARTS": self.parts,
            "QKV_PARTS": self.qkv_parts, "SPLIT_PAGES": self.split_pages, "ROW_SLOTS": self.row_slots,
            "WEIGHT_SLOTS": self.weight_slots, "WEIGHTS_IN_FLIGHT": self.weights_in_flight,
            "SOFTMAX_SCALE": f"{shape.head_dim**-0.5:.9f}f",
        }  # fmt: skip
        return [f"-D{name}={value}" for name, value in named.items()]


def prompt_sizes(shape: Transformer) -> LayerSizes:
    """Return the sizes of the kernel for steps with prompts."""
    return LayerSizes(shape, rows=MAX_PROMPT_ROWS, prompts=True)


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """Weights of the talker's layers: matrices in bfloat16, all others in float32.

    matrices: of each layer, qkv [(heads + 2 kv_heads) d, hidden], out [hidden, heads d], gate_up [2 inner, hidden] and
    down [hidden, inner]. input_norm, post_norm [layers, hidden]; q_norm, k_norm [layers, d]; norm [hidden]; cos, sin
    [positions, d / 2].
    """

    shape: Transformer
    matrices: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]]
    input_norm: Tensor
    post_norm: Tensor
    q_norm: Tensor
    k_norm: Tensor
    norm: Tensor
    cos: Tensor
    sin: Tensor

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.norm.device


PagedCache = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of each layer, bfloat16 [pages, PAGE, kv_heads, d]: contiguous heads, the same strides."""
EncodeMap = Callable[[Tensor, int], bytes]
"""(matrix [out, in], rows) -> tensor map of 128 bytes for boxes of [rows, 64]."""

_WEIGHTS = ("input_norm", "post_norm", "q_norm", "k_norm", "norm", "cos", "sin")
_POINTERS = (
    "maps input_norm post_norm q_norm k_norm norm cos sin input positions slots pages caches normed attended inner qkv "
    "partial split_sums split_masses arrived output barrier"
).split()
_BARRIER_WORDS = 1024


class Params(ctypes.Structure):
    """The kernel's argument struct; must match ``Params`` in the CUDA source (cuda/layers_sizes.h)."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in ("page_stride", "position_stride", "head_stride")),
        *((name, ctypes.c_int) for name in ("rows", "table_width", "splits")),
        ("eps", ctypes.c_float),
    ]


class TalkerLayers:
    """Runs up to ``sizes.rows`` rows, one new position each, through all layers and the final norm.

    With ``sizes.prompts``, rows of a step may be successive positions of one utterance; otherwise each is of another.
    The kernel reads the matrices of ``weights`` and the cache in place. launch: launches the kernel for ``sizes``.
    """

    def __init__(
        self, weights: LayerWeights, cache: PagedCache, sizes: LayerSizes, launch: Launch, encode: EncodeMap
    ) -> None:
        shape, rows, device = weights.shape, sizes.rows, weights.device
        self._weights, self._cache, self._launch, self._eps = weights, cache, launch, shape.eps
        self._splits = (len(weights.cos) - 1) // (PAGE * sizes.split_pages) + 1
        strides = ("page_stride", "position_stride", "head_stride")
        self._strides = dict(zip(strides, cache_strides(cache), strict=True))
        box_rows = [each // (2 if number == 2 else 1) for number, each in enumerate(sizes.outputs)]  # gates, then ups
        maps = [encode(*each) for layer in weights.matrices for each in zip(layer, box_rows, strict=True)]
        items = rows * shape.kv_heads

        def zeros(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=device)

        self._fixed: dict[str, Tensor | None] = {
            "maps": torch.frombuffer(bytearray(b"".join(maps)), dtype=torch.uint8).to(device),
            "caches": torch.tensor([each.data_ptr() for pair in cache for each in pair], device=device),
            "normed": zeros(rows, shape.hidden, dtype=torch.bfloat16),
            "attended": zeros(rows, shape.heads * shape.head_dim, dtype=torch.bfloat16),
            "inner": zeros(rows, shape.intermediate, dtype=torch.bfloat16),
            "qkv": zeros(sizes.qkv_parts, rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim),
            "partial": zeros(sizes.parts, rows, shape.hidden),
            "split_sums": zeros(items, self._splits, 2, shape.head_dim),
            "split_masses": zeros(items, self._splits, 2, 2),
            "arrived": zeros(items, dtype=torch.int32),
            "barrier": zeros(_BARRIER_WORDS, dtype=torch.int32),
        }  # fmt: skip
        self._fixed |= {name: getattr(weights, name) for name in _WEIGHTS}

    def __call__(self, x: Tensor, positions: Tensor, slots: Tensor, pages: Tensor) -> Tensor:
        """Return the hidden states after the final norm, bfloat16 [rows, hidden].

        x: bfloat16 [rows, hidden]. positions: int64 [rows]; the cache holds keys and values of all positions before,
        except those of other rows with ``sizes.prompts``.
        slots: int64 [rows], where those of this position are stored: page * PAGE + position % PAGE, or -1 for padding
        rows, which store nothing and must have position 0. pages: int32 [at least rows, width], the pages of each row.
        """
        output = torch.empty_like(x)
        arguments = Params(rows=len(x), table_width=pages.shape[1], splits=self._splits, eps=self._eps, **self._strides)
        tensors = {"input": x, "positions": positions, "slots": slots, "pages": pages, "output": output}
        fill(arguments, tensors | self._fixed)
        self._launch(arguments)
        return output


def cache_strides(cache: PagedCache) -> tuple[int, int, int]:
    """Return the strides of pages, positions and heads, in elements."""
    page, position, head, _ = cache[0][0].stride()
    return page, position, head

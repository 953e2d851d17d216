"""The code predictor as fused Triton kernels and matrix products, for larger batches, on any NVIDIA GPU."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import next_power_of_2

from engine.kernels.codec_kernels import swiglu_rows
from engine.kernels.fallback import require_gpu
from engine.talker.fused.launches import rows as row_launches
from engine.talker.fused.launches.attention import attention
from engine.talker.fused.launches.first_codes import draw_first_rows
from engine.talker.fused.launches.products import gated_product, part_product
from engine.talker.fused.launches.sampling import draw_rows
from engine.talker.fused.tiles import Tiles, most_sums, tile_for, usual_tiles
from engine.talker.fused.weights import PredictorWeights
from engine.talker.gpu_step.sampler import FirstCodes, RngKey
from engine.talker.gpu_step.slots import RowDraws, Slots
from engine.talker.sampling import Codebook0Rules

_COLUMNS = 1024
_WARPS = 4


class Product:
    """Computes x W^T in float32, of x [rows, in] and W [out, in] in the compute dtype.

    The next call overwrites the result.
    """

    def __init__(self, tiles: Tiles, name: str, rows: int, outputs: int, device: torch.device) -> None:
        self._tiles, self._name = tiles, name
        self._sums = torch.zeros(most_sums(tiles, name, rows), outputs, dtype=torch.float32, device=device)

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the partial sums [parts, rows, out]; the caller adds them."""
        (rows, columns), outputs = x.shape, len(weight)
        tile = tile_for(self._tiles, self._name, rows, outputs, columns)
        if tile is None:
            return multiply(x, weight, self._sums[:rows])[None]
        out = self._sums[: tile.parts * rows].unflatten(0, (tile.parts, rows))
        part_product[(outputs // tile.outputs, triton.cdiv(rows, tile.rows), tile.parts)](
            x, weight, out, rows, outputs, columns, columns // tile.parts,
            BN=tile.outputs, BM=tile.rows, BK=tile.columns, STAGES=tile.stages, num_warps=_WARPS,
        )  # fmt: skip
        return out


class GatedProduct:
    """Computes silu(gate) * up in the compute dtype, of x W^T with W [2 inner, in]: gate rows, then up rows."""

    def __init__(self, tiles: Tiles, rows: int, inner: int, device: torch.device, dtype: torch.dtype) -> None:
        self._tiles = tiles
        self._gate_up = torch.zeros(rows, 2 * inner, dtype=torch.float32, device=device)
        self._inner = torch.zeros(rows, inner, device=device, dtype=dtype)

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return [rows, inner]; the next call overwrites it."""
        (rows, columns), inner = x.shape, len(weight) // 2
        out = self._inner[:rows]
        tile = tile_for(self._tiles, "gate_up", rows, 2 * inner, columns)
        if tile is None:
            block = min(_COLUMNS, triton.next_power_of_2(inner))
            gate_up = multiply(x, weight, self._gate_up[:rows])
            swiglu_rows[(rows, triton.cdiv(inner, block))](gate_up, out, WIDTH=inner, BLOCK=block)
            return out
        gated_product[(2 * inner // tile.outputs, triton.cdiv(rows, tile.rows))](
            x, weight, out, rows, inner, columns,
            BN=tile.outputs, BM=tile.rows, BK=tile.columns, STAGES=tile.stages, num_warps=_WARPS,
        )  # fmt: skip
        return out


def multiply(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """Compute out = x W^T in float32 with cuBLAS."""
    if x.dtype == torch.float32:
        return torch.mm(x, weight.T, out=out)
    return torch.ops.aten.mm.dtype_out(x, weight.T, torch.float32, out=out)


class FusedFirstCodes:
    """Gives the results of ``PlainFirstCodes`` in one launch instead of about eighty."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def self_check(self) -> None:
        """Sample one row of zeros for the scratch slot. Raises Triton's error if the kernel cannot compile or run."""
        slots, seen = self._slots, self._slots.rules.seen
        logits = torch.zeros(1, seen.shape[1], device=seen.device, dtype=slots.frame.dtype)
        self(logits, torch.tensor([slots.scratch], device=seen.device))
        require_gpu()

    def __call__(self, logits: Tensor, rows: Tensor) -> FirstCodes:
        """Sample codebook 0 and update the slots, as ``DrawFirst`` requires."""
        slots, rules, count = self._slots, self._slots.rules, len(rows)
        vocab = logits.shape[1]
        codes = torch.empty_like(rows)
        whole = torch.empty(3, count, device=rows.device, dtype=torch.int64)
        real = torch.empty(2, count, dtype=torch.float32, device=rows.device)
        draw_first_rows[(count,)](
            logits, rows, slots.whole, slots.real, slots.drawn, rules.seen.view(torch.uint8), codes, whole, real,
            SLOTS=slots.scratch + 1, VOCAB=vocab, BLOCK=triton.next_power_of_2(vocab),
            SPECIAL=Codebook0Rules.SPECIAL_IDS, EOS=rules.eos, MIN_TOKENS=Codebook0Rules.MIN_TOKENS, num_warps=8,
        )  # fmt: skip
        return FirstCodes(codes, RowDraws(real[0], whole[2], real[1]), RngKey(whole[0], whole[1]))


class TritonCodes:
    """``ResidualCodes`` for at most ``rows`` rows. Each call overwrites the returned buffers; a call allocates nothing.

    Positions 0 and 1 of all rows run in one pass. ``logits`` [books - 1, rows, vocab] are those of the last call with
    ``forced`` codes. tiles: overrides ``usual_tiles``.
    """

    def __init__(self, weights: PredictorWeights, rows: int, tiles: Tiles | None = None) -> None:
        self._weights, shape = weights, weights.shape
        tiles = usual_tiles(weights.device, weights.dtype) if tiles is None else tiles

        def floats(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.float32, device=weights.device)

        def narrow(*size: int) -> Tensor:
            return torch.zeros(size, device=weights.device, dtype=weights.dtype)

        def product(name: str, rows: int, outputs: int) -> Product:
            return Product(tiles, name, rows, outputs, weights.device)

        pairs = 2 * rows
        self._x, self._entered = floats(pairs, shape.hidden), floats(rows, shape.hidden)
        self._normed, self._mixed = narrow(pairs, shape.hidden), narrow(pairs, shape.heads * shape.head_dim)
        self._qkv = product("qkv", pairs, (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
        self._out, self._down = product("out", pairs, shape.hidden), product("down", pairs, shape.hidden)
        self._gate_up = GatedProduct(tiles, pairs, shape.intermediate, weights.device, weights.dtype)
        self._scores = product("head", rows, weights.vocab)
        self._keys = narrow(shape.layers, rows, shape.kv_heads, weights.books, shape.head_dim)
        self._values = torch.zeros_like(self._keys)
        self.logits = floats(weights.books - 1, rows, weights.vocab)
        self._codes = torch.zeros(rows, weights.books, device=weights.device, dtype=torch.int64)
        self._embedding = narrow(rows, weights.talker_hidden)
        self._offsets: list[int] = weights.offsets.tolist()

    def __call__(
        self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey, forced: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``ResidualCodes``. forced: int64 [rows, books], codes used instead of sampled ones (teacher forcing)."""
        weights, rows = self._weights, len(hidden)
        self._enter(hidden, first)
        added = self._layers(2 * rows, {0: slice(0, rows), 1: slice(rows, 2 * rows)})
        scores = self._head(1, added, slice(rows, 2 * rows))
        self._draw(scores, 1, draws, chance, forced)
        for book in range(2, weights.books):
            added = self._layers(rows, {book: slice(0, rows)})
            scores = self._head(book, added, slice(0, rows))
            self._draw(scores, book, draws, chance, forced)
        width = weights.talker_hidden
        block = min(_COLUMNS, next_power_of_2(width))
        row_launches.sum_rows[(rows, triton.cdiv(width, block))](
            self._codes, weights.tables, weights.offsets, self._embedding,
            BOOKS=weights.books, WIDTH=width, BLOCK=block,
        )  # fmt: skip
        return self._codes[:rows], self._embedding[:rows]

    def _enter(self, hidden: Tensor, first: Tensor) -> None:
        """Fill x with position 0 (talker states in the predictor's hidden size), then position 1 (codebook 0)."""
        weights, rows, width = self._weights, len(hidden), self._weights.shape.hidden
        if weights.project is None:
            self._x[:rows].copy_(hidden)
        else:
            entered = multiply(hidden, weights.project, self._entered[:rows])
            row_launches.enter_rows[(rows,)](
                entered, weights.project_bias, weights.inputs, self._x, WIDTH=width, BLOCK=next_power_of_2(width)
            )
        row_launches.begin_rows[(rows,)](
            first, self._codes, weights.inputs, self._x[rows:],
            BOOKS=weights.books, WIDTH=width, BLOCK=next_power_of_2(width),
        )  # fmt: skip

    def _layers(self, rows: int, positions: dict[int, slice]) -> Tensor:
        """Run ``rows`` rows of x through all layers. Return the last product, which the next norm adds to x.

        positions: maps each position to its rows.
        """
        weights, shape = self._weights, self._weights.shape
        every, normed, added = slice(0, rows), self._normed[:rows], None
        for layer in range(shape.layers):
            self._norm(every, weights.input_norm[layer], added)
            qkv = self._qkv(normed, weights.qkv[layer])
            for position, part in positions.items():
                self._attend(qkv, part, layer, position)
            self._norm(every, weights.post_norm[layer], self._out(self._mixed[:rows], weights.out[layer]))
            added = self._down(self._gate_up(normed, weights.gate_up[layer]), weights.down[layer])
        assert added is not None
        return added

    def _head(self, book: int, added: Tensor, part: slice) -> Tensor:
        """Return the logits of ``book`` for the rows ``part`` of x, as partial sums of ``Product``."""
        self._norm(part, self._weights.norm, added)
        return self._scores(self._normed[part], self._weights.heads[book - 1])

    def _norm(self, part: slice, gain: Tensor, added: Tensor | None) -> None:
        """Apply RMSNorm to the rows ``part`` of x; first add the product ``added`` to x, if there is one."""
        shape, x = self._weights.shape, self._x[part]
        sums = x[None] if added is None else added[:, part]
        row_launches.norm_rows[(len(x),)](
            x, sums, sums.stride(0), gain, self._normed[part], shape.eps,
            WIDTH=shape.hidden, BLOCK=next_power_of_2(shape.hidden), PARTS=0 if added is None else len(sums),
            num_warps=4,
        )  # fmt: skip

    def _attend(self, every: Tensor, part: slice, layer: int, position: int) -> None:
        """Run attention for the rows ``part``, which are at ``position``. every: partial QKV sums of all rows."""
        weights, shape, qkv = self._weights, self._weights.shape, every[:, part]
        attention[(qkv.shape[1], shape.kv_heads)](
            qkv, qkv.stride(0), weights.q_norm[layer], weights.k_norm[layer], weights.cos, weights.sin,
            self._keys[layer], self._values[layer], self._mixed[part], shape.eps, shape.head_dim**-0.5, position,
            KV_HEADS=shape.kv_heads, GROUPS=shape.heads // shape.kv_heads, D=shape.head_dim,
            PADDED=next_power_of_2(weights.books), POSITIONS=weights.books, PARTS=len(qkv), num_warps=2,
        )  # fmt: skip

    def _draw(self, scores: Tensor, book: int, draws: RowDraws, chance: RngKey, forced: Tensor | None) -> None:
        weights, width = self._weights, self._weights.shape.hidden
        last = book == weights.books - 1
        draw_rows[(scores.shape[1],)](
            scores, scores.stride(0), draws.temperature, draws.top_k, draws.top_p, chance.seeds, chance.frames,
            self._codes if forced is None else forced, self.logits[book - 1], self._codes,
            weights.inputs, 0 if last else self._offsets[book], self._x, book,
            FORCED=forced is not None, BOOKS=weights.books, VOCAB=weights.vocab, BLOCK=next_power_of_2(weights.vocab),
            WIDTH=width, WIDTH_BLOCK=next_power_of_2(width), NEXT=not last, PARTS=len(scores), num_warps=8,
        )  # fmt: skip


def refusal(weights: PredictorWeights) -> str | None:
    """Return why the kernels do not support the model's sizes; None if they do."""
    shape = weights.shape
    groups, half = shape.heads // shape.kv_heads, shape.head_dim // 2
    if next_power_of_2(groups) != groups or next_power_of_2(half) != half:
        return f"heads of {shape.head_dim} in groups of {groups} are no powers of two"
    return None

"""The code predictor as fused Triton kernels and matrix products, for larger batches, on any NVIDIA GPU."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import next_power_of_2

from engine.kernels.codec_kernels import swiglu_rows
from engine.kernels.fallback import require_gpu
from engine.kernels.triton_launch import Launch, run
from engine.talker.fused.launches import rows as row_launches
from engine.talker.fused.launches.attention import attention
from engine.talker.fused.launches.first_codes import sample_first_rows
from engine.talker.fused.launches.products import gated_product, split_product
from engine.talker.fused.launches.sampling import sample_rows
from engine.talker.fused.tiles import Tiles, default_tiles, partial_sum_rows, tile_for
from engine.talker.fused.weights import PredictorWeights
from engine.talker.gpu_step.frame_sampler import FirstCodes, RngKey
from engine.talker.gpu_step.slots import Slots
from engine.talker.sampling import Codebook0Rules
from engine.talker.sampling_params import FLOAT_COLUMNS, INT_COLUMNS, SamplingTensors

_MAX_BLOCK = 1024
_WARPS = 4


class Product:
    """Computes x W^T in float32, of x [rows, in] and W [out, in] in the compute dtype.

    The next call overwrites the result.
    """

    def __init__(self, tiles: Tiles, name: str, rows: int, outputs: int, device: torch.device) -> None:
        self._tiles, self._name = tiles, name
        self._sums = torch.zeros(partial_sum_rows(tiles, name, rows), outputs, dtype=torch.float32, device=device)

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the partial sums [parts, rows, out]; the caller adds them."""
        (rows, columns), outputs = x.shape, len(weight)
        tile = tile_for(self._tiles, self._name, rows, outputs, columns)
        if tile is None:
            return multiply(x, weight, self._sums[:rows])[None]
        out = self._sums[: tile.parts * rows].unflatten(0, (tile.parts, rows))
        split_product[(outputs // tile.outputs, triton.cdiv(rows, tile.rows), tile.parts)](
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
            block = min(_MAX_BLOCK, triton.next_power_of_2(inner))
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
    """Gives the results of ``PlainFirstCodes`` in one launch instead of about eighty.

    launch: runs or compiles the kernel.
    """

    def __init__(self, slots: Slots, launch: Launch = run) -> None:
        self._slots, self._launch = slots, launch

    def self_check(self) -> None:
        """Sample for the padding row. Raises Triton's error if the kernel cannot be compiled or launched."""
        self.run_padding()
        require_gpu()

    def run_padding(self) -> None:
        """Sample one row of zeros for the padding row."""
        slots, seen = self._slots, self._slots.codebook0_rules.seen
        logits = torch.zeros(1, seen.shape[1], device=seen.device, dtype=slots.embedding.dtype)
        self(logits, torch.full((1,), slots.padding_row, device=seen.device))

    def __call__(self, logits: Tensor, slot_ids: Tensor) -> FirstCodes:
        """Sample codebook 0 and update the slots, as ``FirstCodeSampler`` requires."""
        slots, rules, rows = self._slots, self._slots.codebook0_rules, len(slot_ids)
        vocab = logits.shape[1]
        codes, seeds, frames = (torch.empty_like(slot_ids) for _ in range(3))
        params = SamplingTensors(
            torch.empty(len(INT_COLUMNS), rows, device=slot_ids.device, dtype=torch.int64),
            torch.empty(len(FLOAT_COLUMNS), rows, device=slot_ids.device, dtype=torch.float32),
        )
        self._launch(
            sample_first_rows, (rows,),
            logits, slot_ids, slots.seeds, slots.frames_made, rules.seen.view(torch.uint8),
            *slots.codebook0_params, *slots.residual_params, codes, seeds, frames, *params,
            SLOTS=slots.padding_row + 1, INT_COLUMNS=len(INT_COLUMNS), FLOAT_COLUMNS=len(FLOAT_COLUMNS), VOCAB=vocab,
            BLOCK=triton.next_power_of_2(vocab), SPECIAL=Codebook0Rules.SPECIAL_IDS, EOS=rules.eos,
            MIN_TOKENS=Codebook0Rules.MIN_TOKENS, num_warps=8,
        )  # fmt: skip
        return FirstCodes(codes, params, RngKey(seeds, frames))


class TritonCodes:
    """``ResidualCodes`` for at most ``rows`` rows. Each call overwrites the returned buffers; a call allocates nothing.

    Positions 0 and 1 of all rows run in one pass. ``logits`` [codebooks - 1, rows, vocab] are those of the last call
    with ``forced`` codes. tiles: overrides ``default_tiles``.
    """

    def __init__(self, weights: PredictorWeights, rows: int, tiles: Tiles | None = None) -> None:
        self._weights, shape = weights, weights.shape
        tiles = default_tiles(weights.device, weights.dtype) if tiles is None else tiles

        def float32(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.float32, device=weights.device)

        def compute_dtype(*size: int) -> Tensor:
            return torch.zeros(size, device=weights.device, dtype=weights.dtype)

        def product(name: str, rows: int, outputs: int) -> Product:
            return Product(tiles, name, rows, outputs, weights.device)

        pairs = 2 * rows
        self._x, self._projected = float32(pairs, shape.hidden), float32(rows, shape.hidden)
        self._normed = compute_dtype(pairs, shape.hidden)
        self._attended = compute_dtype(pairs, shape.heads * shape.head_dim)
        self._qkv = product("qkv", pairs, (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
        self._out, self._down = product("out", pairs, shape.hidden), product("down", pairs, shape.hidden)
        self._gate_up = GatedProduct(tiles, pairs, shape.intermediate, weights.device, weights.dtype)
        self._head_product = product("head", rows, weights.vocab)
        self._keys = compute_dtype(shape.layers, rows, shape.kv_heads, weights.codebooks, shape.head_dim)
        self._values = torch.zeros_like(self._keys)
        self.logits = float32(weights.codebooks - 1, rows, weights.vocab)
        self._codes = torch.zeros(rows, weights.codebooks, device=weights.device, dtype=torch.int64)
        self._embedding = compute_dtype(rows, weights.talker_hidden)
        self._offsets: list[int] = weights.offsets.tolist()

    def __call__(
        self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey, forced: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample codebooks 1 to 15 as ``ResidualCodes`` requires.

        forced: int64 [rows, codebooks], codes used instead of sampled ones (teacher forcing).
        """
        weights, rows = self._weights, len(hidden)
        self._first_positions(hidden, first)
        added = self._layers(2 * rows, {0: slice(0, rows), 1: slice(rows, 2 * rows)})
        logits = self._head(1, added, slice(rows, 2 * rows))
        self._sample(logits, 1, params, rng, forced)
        for codebook in range(2, weights.codebooks):
            added = self._layers(rows, {codebook: slice(0, rows)})
            logits = self._head(codebook, added, slice(0, rows))
            self._sample(logits, codebook, params, rng, forced)
        width = weights.talker_hidden
        block = min(_MAX_BLOCK, next_power_of_2(width))
        row_launches.sum_rows[(rows, triton.cdiv(width, block))](
            self._codes, weights.tables, weights.offsets, self._embedding,
            CODEBOOKS=weights.codebooks, WIDTH=width, BLOCK=block,
        )  # fmt: skip
        return self._codes[:rows], self._embedding[:rows]

    def _first_positions(self, hidden: Tensor, first: Tensor) -> None:
        """Fill x with position 0 (talker states in the predictor's hidden size), then position 1 (codebook 0)."""
        weights, rows, width = self._weights, len(hidden), self._weights.shape.hidden
        if weights.project is None:
            self._x[:rows].copy_(hidden)
        else:
            projected = multiply(hidden, weights.project, self._projected[:rows])
            row_launches.add_bias_rows[(rows,)](
                projected, weights.project_bias, weights.inputs, self._x, WIDTH=width, BLOCK=next_power_of_2(width)
            )
        row_launches.embed_first_rows[(rows,)](
            first, self._codes, weights.inputs, self._x[rows:],
            CODEBOOKS=weights.codebooks, WIDTH=width, BLOCK=next_power_of_2(width),
        )  # fmt: skip

    def _layers(self, rows: int, positions: dict[int, slice]) -> Tensor:
        """Run ``rows`` rows of x through all layers. Return the last product, which the next norm adds to x.

        positions: maps each position to its rows.
        """
        weights, shape = self._weights, self._weights.shape
        all_rows, normed, added = slice(0, rows), self._normed[:rows], None
        for layer in range(shape.layers):
            self._norm(all_rows, weights.input_norm[layer], added)
            qkv = self._qkv(normed, weights.qkv[layer])
            for position, part in positions.items():
                self._attend(qkv, part, layer, position)
            self._norm(all_rows, weights.post_norm[layer], self._out(self._attended[:rows], weights.out[layer]))
            added = self._down(self._gate_up(normed, weights.gate_up[layer]), weights.down[layer])
        assert added is not None
        return added

    def _head(self, codebook: int, added: Tensor, part: slice) -> Tensor:
        """Return the logits of ``codebook`` for the rows ``part`` of x, as partial sums of ``Product``."""
        self._norm(part, self._weights.norm, added)
        return self._head_product(self._normed[part], self._weights.heads[codebook - 1])

    def _norm(self, part: slice, gain: Tensor, added: Tensor | None) -> None:
        """Apply RMSNorm to the rows ``part`` of x; first add the product ``added`` to x, if there is one."""
        shape, x = self._weights.shape, self._x[part]
        sums = x[None] if added is None else added[:, part]
        row_launches.norm_rows[(len(x),)](
            x, sums, sums.stride(0), gain, self._normed[part], shape.eps,
            WIDTH=shape.hidden, BLOCK=next_power_of_2(shape.hidden), PARTS=0 if added is None else len(sums),
            num_warps=4,
        )  # fmt: skip

    def _attend(self, qkv: Tensor, part: slice, layer: int, position: int) -> None:
        """Run attention for the rows ``part``, which are at ``position``. qkv: partial sums of all rows."""
        weights, shape, qkv = self._weights, self._weights.shape, qkv[:, part]
        attention[(qkv.shape[1], shape.kv_heads)](
            qkv, qkv.stride(0), weights.q_norm[layer], weights.k_norm[layer], weights.cos, weights.sin,
            self._keys[layer], self._values[layer], self._attended[part], shape.eps, shape.head_dim**-0.5, position,
            KV_HEADS=shape.kv_heads, GROUPS=shape.heads // shape.kv_heads, D=shape.head_dim,
            PADDED=next_power_of_2(weights.codebooks), POSITIONS=weights.codebooks, PARTS=len(qkv), num_warps=2,
        )  # fmt: skip

    def _sample(
        self, logits: Tensor, codebook: int, params: SamplingTensors, rng: RngKey, forced: Tensor | None
    ) -> None:
        """Sample the codes of ``codebook`` and set x to their embeddings. logits: partial sums of ``Product``."""
        weights, width = self._weights, self._weights.shape.hidden
        last = codebook == weights.codebooks - 1
        sample_rows[(logits.shape[1],)](
            logits, logits.stride(0), *params, *rng,
            self._codes if forced is None else forced, self.logits[codebook - 1], self._codes,
            weights.inputs, 0 if last else self._offsets[codebook], self._x, codebook,
            FORCED=forced is not None, CODEBOOKS=weights.codebooks, VOCAB=weights.vocab,
            BLOCK=next_power_of_2(weights.vocab), WIDTH=width, WIDTH_BLOCK=next_power_of_2(width), NEXT=not last,
            PARTS=len(logits), num_warps=8,
        )  # fmt: skip


def unsupported(weights: PredictorWeights) -> str | None:
    """Return why the kernels do not support the model's sizes; None if they do."""
    shape = weights.shape
    groups, half = shape.heads // shape.kv_heads, shape.head_dim // 2
    if next_power_of_2(groups) != groups or next_power_of_2(half) != half:
        return f"head_dim ({shape.head_dim}) and heads per KV head ({groups}) must be powers of two"
    return None

"""The talker's decoder layers as matrix products and Triton kernels, for steps whose rows have short contexts."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from engine.kernels.codec_kernels import swiglu_rows
from engine.kernels.fallback import require_gpu
from engine.kernels.triton_launch import Launch, run
from engine.talker.fused.launches.paged_attention import attend_rows, store_heads
from engine.talker.fused.launches.rows import norm_rows
from engine.talker.fused.layers import LayerWeights, PagedCache, cache_strides

_BLOCK = 64
"""Positions that a program of the attention reads at once."""
_QUERIES = 16
"""Smallest number of rows of a matrix product in Triton."""
_MAX_COLUMNS = 1024
"""Columns of a program of SwiGLU."""


class RowLayers:
    """Runs rows of any utterances through all layers and the final norm. Each row attends by itself.

    So the rows of a prompt read the cached positions once for each row. In exchange, rows of prompts and single rows
    need no plan on the host, and a single row is read without waste: FlashAttention computes at least 64 rows for it.
    Matrices and cache are used in place. Nothing is allocated but the results. launch: runs or compiles each kernel.
    """

    def __init__(self, weights: LayerWeights, cache: PagedCache, launch: Launch = run) -> None:
        self._weights, self._cache, self._strides = weights, cache, cache_strides(cache)
        self._launch = launch

    def self_check(self) -> None:
        """Run a padding row. Raises Triton's error if a kernel cannot be compiled or launched."""
        self.run_padding()
        require_gpu()

    def run_padding(self) -> None:
        """Run a padding row, which launches every kernel and stores nothing in the cache."""
        weights = self._weights
        x = torch.zeros(1, weights.shape.hidden, device=weights.device, dtype=weights.matrices[0][0].dtype)
        zeros = torch.zeros(1, device=weights.device, dtype=torch.int64)
        self(x, zeros, zeros - 1, zeros[:, None].int())

    def __call__(self, x: Tensor, positions: Tensor, slots: Tensor, pages: Tensor) -> Tensor:
        """Return the hidden states after the final norm [rows, hidden].

        x: [rows, hidden]. positions: int64 [rows]; each is below ``MAX_POSITIONS``, and the positions before it are
        cached or of rows of this step. slots: int64 [rows], where keys and values of the row are stored: page * P +
        position % P, with P positions in a page, or -1 for padding rows, which store nothing and must have position 0.
        pages: int32 [rows, width], the pages of each row.
        """
        weights, dtype = self._weights, x.dtype
        x = x.to(torch.float32, copy=True)
        normed = self._normed(x, None, weights.input_norm[0], dtype)
        after = [*weights.input_norm[1:], weights.norm]
        for layer, (qkv, out, gate_up, down) in enumerate(weights.matrices):
            attended = self._attention(torch.mm(normed, qkv.T), layer, positions, slots, pages)
            normed = self._normed(x, torch.mm(attended, out.T), weights.post_norm[layer], dtype)
            normed = self._normed(x, torch.mm(self._swiglu(torch.mm(normed, gate_up.T)), down.T), after[layer], dtype)
        return normed

    def _attention(self, qkv: Tensor, layer: int, positions: Tensor, slots: Tensor, pages: Tensor) -> Tensor:
        """Store this step's keys and values, and attend: [rows, heads * d]. Changes the queries in ``qkv``."""
        weights, shape, rows = self._weights, self._weights.shape, len(qkv)
        keys, values = self._cache[layer]
        heads = {
            "KV_HEADS": shape.kv_heads,
            "GROUPS": shape.heads // shape.kv_heads,
            "D": shape.head_dim,
            "PAGE": keys.shape[1],
        }
        padded = triton.next_power_of_2(shape.heads + 2 * shape.kv_heads)
        self._launch(
            store_heads, (rows,),
            qkv, weights.q_norm[layer], weights.k_norm[layer], weights.cos, weights.sin, positions, slots, keys, values,
            shape.eps, *self._strides, **heads, PADDED=padded,
        )  # fmt: skip
        attended = qkv.new_empty(rows, shape.heads * shape.head_dim)
        self._launch(
            attend_rows, (shape.kv_heads, rows),
            qkv, keys, values, pages, positions, attended, shape.head_dim**-0.5, pages.shape[1],
            *self._strides, **heads, BLOCK=_BLOCK, QUERIES=_QUERIES,
        )  # fmt: skip
        return attended

    def _normed(self, x: Tensor, added: Tensor | None, gain: Tensor, dtype: torch.dtype) -> Tensor:
        """Add ``added`` to x [rows, hidden], float32. Return its RMSNorm in ``dtype``."""
        (rows, width), normed = x.shape, torch.empty_like(x, dtype=dtype)
        self._launch(
            norm_rows, (rows,),
            x, x if added is None else added, 0, gain, normed, self._weights.shape.eps,
            WIDTH=width, BLOCK=triton.next_power_of_2(width), PARTS=0 if added is None else 1,
        )  # fmt: skip
        return normed

    def _swiglu(self, gate_up: Tensor) -> Tensor:
        rows, inner = len(gate_up), gate_up.shape[1] // 2
        out, block = gate_up.new_empty(rows, inner), min(_MAX_COLUMNS, triton.next_power_of_2(inner))
        self._launch(swiglu_rows, (rows, triton.cdiv(inner, block)), gate_up, out, WIDTH=inner, BLOCK=block)
        return out

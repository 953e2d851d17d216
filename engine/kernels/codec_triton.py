"""Code2Wav's operations as Triton kernels. Reference implementation: tests/support/torch_codec_ops.py."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import next_power_of_2
from typing_extensions import override

from engine.kernels import codec_kernels
from engine.kernels.codec_ops import Caches, Ops, Product, ResidualUnit
from engine.kernels.codec_tiles import H200_SHARED_BYTES, choose_tile
from engine.kernels.codec_units import UnitKernels
from engine.kernels.triton_launch import Launch, run

_ACTIVATIONS = {"none": 0, "snake": 1, "gelu": 2}
_COPY_PARTS = 8
_COPY_BLOCK = 1024
_PRECISION = "ieee"
_ATTENTION_WARPS = 4
_MANY_ATTENTION_PROGRAMS = 1024
"""From this number of programs on, each is one warp."""
_LAST_ROWS = 64
"""Rows of the last convolution's input that a program reads."""
_COUNTS = 1024
"""Maximum blocks of a product that is split."""


class TritonOps(Ops):
    """``Ops`` as Triton kernels.

    launch: runs or compiles each kernel. shared: bytes of shared memory per block. units: runs the residual units that
    fit it, as one launch each, and the products that fit ``units.products``.
    """

    def __init__(self, launch: Launch = run, shared: int = H200_SHARED_BYTES, units: UnitKernels | None = None) -> None:
        self._launch, self._shared, self._units = launch, shared, units
        self._counts: Tensor | None = None

    @override
    def sum_codebooks(self, codes: Tensor, table: Tensor, out: Tensor) -> None:
        streams, frames, books = codes.shape
        width = table.shape[1]
        self._launch(
            codec_kernels.sum_codebooks, (streams * frames,),
            codes, table, out, frames, out.stride(0), table.shape[0] // books,
            BOOKS=books, WIDTH=width, BLOCK=next_power_of_2(width), num_warps=4,
        )  # fmt: skip

    @override
    def product(
        self,
        x: Tensor,
        product: Product,
        *,
        residual: Tensor | None = None,
        raw: Tensor | None = None,
        act: Tensor | None = None,
    ) -> None:
        if self._units is not None and self._units.products.fits(x, product):
            self._units.products(x, product, residual, raw, act)
            return
        depth, columns = product.matrix.shape
        length = x.shape[1] - product.history
        rows = x.shape[0] * length
        normed = product.norm_eps is not None
        tile = choose_tile(rows, columns, depth, x.element_size(), self._shared, normed=normed)
        unused = sums = counts = product.bias
        programs = tile.programs(rows, columns)
        if tile.splits > 1:
            sums = x.new_empty(programs * tile.splits * tile.rows * tile.columns, dtype=torch.float32)
            counts = self._zero_counts(x.device)
        self._launch(
            codec_kernels.causal_product, (programs, tile.splits),
            x, product.matrix, product.bias, unused if product.scale is None else product.scale,
            unused if residual is None else residual, unused if raw is None else raw, unused if act is None else act,
            unused if product.frequency is None else product.frequency,
            unused if product.gain is None else product.gain, sums, counts,
            rows, length, columns, depth, product.inputs, product.dilation,
            x.stride(0), _stride(residual), _stride(raw), _stride(act), product.norm_eps or 0.0,
            BM=tile.rows, BN=tile.columns, BK=tile.depth, SPLITS=tile.splits, EVEN=depth % tile.depth == 0,
            NORM=normed, SCALE=product.scale is not None,
            RESIDUAL=residual is not None, RAW=raw is not None, ACT=act is not None,
            ACTIVATION=_ACTIVATIONS[product.activation], PRECISION=_PRECISION,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    @override
    def residual_unit(
        self, x: Tensor, unit: ResidualUnit, *, residual: Tensor, raw: Tensor | None, act: Tensor
    ) -> None:
        if self._units is not None and self._units.fits(x, unit, *residual.shape[:2]):
            self._units(x, unit, residual, raw, act)
        else:
            super().residual_unit(x, unit, residual=residual, raw=raw, act=act)

    @override
    def swiglu(self, x: Tensor) -> Tensor:
        width = x.shape[-1] // 2
        out = x.new_empty((*x.shape[:-1], width))
        grid = (out.numel() // width,)
        self._launch(codec_kernels.swiglu_rows, grid, x, out, WIDTH=width, BLOCK=next_power_of_2(width), num_warps=4)
        return out

    @override
    def rotations(self, positions: Tensor, rows: Tensor, frames: int, frequencies: Tensor) -> Tensor:
        out = frequencies.new_empty((len(rows), frames, 2, len(frequencies)))
        grid = (len(rows) * frames,)
        arguments = rows, positions, frequencies, out, frames
        self._launch(codec_kernels.rotations, grid, *arguments, HALF=len(frequencies), num_warps=1)
        return out

    @override
    def attention(
        self, qkv: Tensor, caches: Caches, layer: int, rows: Tensor, rotations: Tensor, window: int
    ) -> Tensor:
        streams, frames, _, heads, width = qkv.shape
        out = qkv.new_empty((streams, frames, heads * width))
        keys, values = caches.keys[:, layer], caches.values[:, layer]
        warps = 1 if streams * frames * heads >= _MANY_ATTENTION_PROGRAMS else _ATTENTION_WARPS
        self._launch(
            codec_kernels.window_attention, (streams * frames, heads),
            qkv, out, keys, values, rows, caches.positions, rotations, frames, keys.stride(0), width**-0.5,
            HEADS=heads, HALF=width // 2, RING=keys.shape[2], WINDOW=window, ROWS=4 * warps, num_warps=warps,
        )  # fmt: skip
        return out

    @override
    def advance(self, positions: Tensor, rows: Tensor, frames: int) -> None:
        block = next_power_of_2(len(rows))
        self._launch(codec_kernels.advance, (1,), positions, rows, len(rows), frames, BLOCK=block, num_warps=1)

    @override
    def depthwise_norm(
        self, x: Tensor, weight: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor], eps: float
    ) -> Tensor:
        taps, width = weight.shape
        streams, length = x.shape[0], x.shape[1] - taps + 1
        out = x.new_empty((streams, length, width))
        self._launch(
            codec_kernels.depthwise_norm, (streams * length,),
            x, weight, bias, *norm, out, length, x.stride(0), eps, TAPS=taps, WIDTH=width, BLOCK=next_power_of_2(width),
            num_warps=4,
        )  # fmt: skip
        return out

    @override
    def last_convolution(self, x: Tensor, weight: Tensor, bias: Tensor, samples: Tensor) -> None:
        taps, width = weight.shape
        streams, length = samples.shape
        self._launch(
            codec_kernels.last_convolution, (streams * triton.cdiv(length, _LAST_ROWS - taps + 1),),
            x, weight, bias, samples, length, x.stride(0),
            TAPS=taps, WIDTH=width, COLUMNS=next_power_of_2(2 * taps), BM=_LAST_ROWS, BK=32, PRECISION=_PRECISION,
            num_warps=4,
        )  # fmt: skip

    @override
    def move_columns(self, columns: Tensor, work: Tensor, rows: Tensor, plan: Tensor, save: bool) -> None:
        self._launch(
            codec_kernels.move_columns,
            (len(rows), len(plan), _COPY_PARTS),
            columns,
            work,
            rows,
            plan,
            columns.stride(0),
            SAVE=save,
            PARTS=_COPY_PARTS,
            BLOCK=_COPY_BLOCK,
            num_warps=4,
        )

    def _zero_counts(self, device: torch.device) -> Tensor:
        if self._counts is None:
            self._counts = torch.zeros(_COUNTS, dtype=torch.int32, device=device)
        return self._counts


def _stride(x: Tensor | None) -> int:
    return 0 if x is None else x.stride(0)

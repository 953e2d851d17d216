"""Kernels with one program per row: RMSNorm, embedding lookups, and the steps before and after the layers."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.talker.fused.launches.products import load_sum


@triton.jit
def norm_rows(
    x_ptr, y_ptr, part_stride, gain_ptr, out_ptr, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """Write RMSNorm of row program_id(0) of x, float32 [rows, WIDTH], to out.

    If PARTS > 0, first add the partial sums y [PARTS, rows, WIDTH] to x.
    """
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < WIDTH
    x = tl.load(x_ptr + row * WIDTH + at, inside, 0.0)
    if PARTS > 0:
        x += load_sum(y_ptr + row * WIDTH + at, part_stride, PARTS, inside)
        tl.store(x_ptr + row * WIDTH + at, x, inside)
    scale = tl.rsqrt(tl.sum(x * x) / WIDTH + eps)
    y = x * scale * tl.load(gain_ptr + at, inside, 0.0)
    tl.store(out_ptr + row * WIDTH + at, y.to(out_ptr.dtype.element_ty), inside)


@triton.jit
def add_bias_rows(y_ptr, bias_ptr, inputs_ptr, x_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Compute x = y + bias, float32 [rows, WIDTH], rounded to the dtype of ``inputs``."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < WIDTH
    y = tl.load(y_ptr + row * WIDTH + at, inside, 0.0) + tl.load(bias_ptr + at, inside, 0.0)
    tl.store(x_ptr + row * WIDTH + at, y.to(inputs_ptr.dtype.element_ty).to(tl.float32), inside)


@triton.jit
def embed_first_rows(
    first_ptr, codes_ptr, inputs_ptr, x_ptr, CODEBOOKS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Store the codes of codebook 0 in codes [rows, CODEBOOKS], and set x to their embeddings."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < WIDTH
    code = tl.load(first_ptr + row)
    tl.store(codes_ptr + row * CODEBOOKS, code)
    embedded = tl.load(inputs_ptr + code * WIDTH + at, inside, 0.0)
    tl.store(x_ptr + row * WIDTH + at, embedded.to(tl.float32), inside)


@triton.jit
def sum_rows(
    codes_ptr, tables_ptr, offsets_ptr, out_ptr, CODEBOOKS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Sum the embeddings of a frame's codes: row program_id(0), column block program_id(1)."""
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < WIDTH
    total = tl.zeros((BLOCK,), tl.float32)
    for codebook in tl.static_range(CODEBOOKS):
        code = tl.load(codes_ptr + row * CODEBOOKS + codebook) + tl.load(offsets_ptr + codebook)
        total += tl.load(tables_ptr + code * WIDTH + at, inside, 0.0).to(tl.float32)
    tl.store(out_ptr + row * WIDTH + at, total.to(out_ptr.dtype.element_ty), inside)

"""Samples codes without sorting, one program per row; same results as ``engine.talker.sampling.Sampler``."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.triton_launch import settle_cache_keys
from engine.protocol.request import CODEBOOKS as FRAME_CODEBOOKS
from engine.talker.fused.launches.products import load_sum
from engine.talker.sampling_params import COLUMN_INDEX

TEMPERATURE: tl.constexpr = tl.constexpr(COLUMN_INDEX["temperature"])
TOP_K: tl.constexpr = tl.constexpr(COLUMN_INDEX["top_k"])
TOP_P: tl.constexpr = tl.constexpr(COLUMN_INDEX["top_p"])
UNIFORMS_PER_FRAME: tl.constexpr = tl.constexpr(FRAME_CODEBOOKS)
INT32_MIN: tl.constexpr = tl.constexpr(-2147483648)


@triton.jit
def _splitmix64(z):
    """Apply SplitMix64's output function."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def uniform(seed, frame, codebook):
    """Return a float64 in [0, 1) for (seed, frame, codebook), equal to that of ``engine.talker.sampling.uniforms``."""
    counter = (frame * UNIFORMS_PER_FRAME + codebook + 1).to(tl.uint64)
    bits = _splitmix64(_splitmix64(seed.to(tl.uint64)) + counter * 0x9E3779B97F4A7C15)
    return (bits >> 32).to(tl.float64) * 2.3283064365386963e-10


@triton.jit
def _kth_largest(order, k, top):
    """Return a threshold: the largest t such that at least k entries of ``order`` (int32) are >= t.

    It may return another t that selects the same entries. top: the largest entry.
    """
    low = tl.full((), INT32_MIN, tl.int64)
    high = top.to(tl.int64)
    while low < high:
        middle = (low + high + 1) >> 1
        count = tl.sum((order >= middle).to(tl.int32))
        low = tl.where(count >= k, middle, low)
        high = tl.where(count > k, high, tl.where(count == k, middle, middle - 1))
    return low


@triton.jit
def _top_p_threshold(order, weight, limit, top):
    """Return the smallest t such that entries <= t have a total weight above ``limit``. top: the largest entry."""
    low = tl.full((), INT32_MIN, tl.int64)
    high = top.to(tl.int64)
    while low < high:
        middle = (low + high) >> 1
        above = tl.sum(tl.where(order <= middle, weight, 0.0)) > limit
        high = tl.where(above, middle, high)
        low = tl.where(above, low, middle + 1)
    return high


@triton.jit
def _keep_top_p(weight, order, kept, top, ids, top_p):
    """Apply top-p: keep the smallest set of most likely ids whose mass reaches top_p.

    Equal scores are dropped in the order of their ids. The last id with the top score is never dropped.
    """
    limit = (1.0 - top_p).to(tl.float64) * tl.sum(weight)
    threshold = _top_p_threshold(order, weight, limit, top)
    below = tl.sum(tl.where(order < threshold, weight, 0.0))
    tied = kept & (order == threshold)
    reached = below + tl.cumsum(tl.where(tied, weight, 0.0))
    last = tl.max(tl.where(order == top, ids, -1))
    dropped = ((order < threshold) | (tied & (reached <= limit))) & (ids != last)
    return tl.where(dropped, 0.0, weight)


@triton.jit
def sample_code(
    logits, ids, int_params_ptr, float_params_ptr, params_rows, params_row, random,
    VOCAB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return the code sampled from a row's logits, float32 [BLOCK], -inf from VOCAB on.

    ids: 0 to BLOCK - 1. int_params, float_params: the ``SamplingTensors`` of ``params_rows`` rows, of which
    ``params_row`` is used. random: float64 in [0, 1).
    """
    temperature = tl.load(float_params_ptr + params_rows * TEMPERATURE + params_row)
    top_k = tl.load(int_params_ptr + params_rows * TOP_K + params_row)
    top_p = tl.load(float_params_ptr + params_rows * TOP_P + params_row)
    greedy = temperature == 0.0
    scores = tl.math.div_rn(logits, tl.where(greedy, 1.0, temperature) + tl.zeros((BLOCK,), tl.float32))
    bits = scores.to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    top = tl.max(order)
    kept = ids >= 0
    if (top_k > 0) & (top_k < VOCAB):
        kept = order >= _kth_largest(order, top_k, top)
    weight = tl.where(kept, tl.exp(scores - tl.max(scores)), 0.0).to(tl.float64)
    if top_p < 1.0:
        weight = _keep_top_p(weight, order, kept, top, ids, top_p)
    mass = tl.cumsum(weight)
    sampled = tl.sum((mass <= random * tl.max(mass)).to(tl.int32))
    return tl.minimum(tl.where(greedy, tl.argmax(scores, 0, tie_break_left=True), sampled), VOCAB - 1)


@triton.jit(do_not_specialize=["codebook", "offset"])
def sample_rows(
    partial_ptr, part_stride, int_params_ptr, float_params_ptr, seeds_ptr, frames_ptr, forced_ptr, logits_ptr,
    codes_ptr, inputs_ptr, offset, x_ptr, codebook, FORCED: tl.constexpr, CODEBOOKS: tl.constexpr,
    VOCAB: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, WIDTH_BLOCK: tl.constexpr, NEXT: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Sample the code of ``codebook`` for row program_id(0), store it, and with NEXT set x to its embedding.

    partial: float32 partial sums [PARTS, rows, VOCAB] of the logits, with stride ``part_stride`` between parts;
    int_params, float_params: ``SamplingTensors`` of the rows; codes [rows, CODEBOOKS]; offset: the first row of this
    codebook in ``inputs``. FORCED: the code is read from ``forced`` instead of sampled, and the logits are stored in
    ``logits`` [rows, VOCAB].
    """
    row, rows, ids = tl.program_id(0), tl.num_programs(0), tl.arange(0, BLOCK)
    logits = load_sum(partial_ptr + row * VOCAB + ids, part_stride, PARTS, ids < VOCAB)
    if FORCED:
        tl.store(logits_ptr + row * VOCAB + ids, logits, ids < VOCAB)
        code = tl.load(forced_ptr + row * CODEBOOKS + codebook).to(tl.int32)
    else:
        logits = tl.where(ids < VOCAB, logits, float("-inf"))
        random = uniform(tl.load(seeds_ptr + row), tl.load(frames_ptr + row), codebook)
        code = sample_code(logits, ids, int_params_ptr, float_params_ptr, rows, row, random, VOCAB, BLOCK)
    tl.store(codes_ptr + row * CODEBOOKS + codebook, code.to(tl.int64))
    if NEXT:
        w = tl.arange(0, WIDTH_BLOCK)
        embedded = tl.load(inputs_ptr + (offset + code).to(tl.int64) * WIDTH + w, w < WIDTH, 0.0)
        tl.store(x_ptr + row * WIDTH + w, embedded.to(tl.float32), w < WIDTH)


settle_cache_keys(__name__)

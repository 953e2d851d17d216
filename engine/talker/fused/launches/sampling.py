"""Samples codes without sorting, one program per row; same results as ``engine.talker.gpu_step.slots.draw``."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.talker.fused.launches.products import summed

CODEBOOKS: tl.constexpr = tl.constexpr(16)
LEAST: tl.constexpr = tl.constexpr(-2147483648)


@triton.jit
def _mixed(z):
    """Apply SplitMix64's output function."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def uniform(seed, frame, book):
    """Return a float64 in [0, 1) for (seed, frame, book), equal to that of ``engine.talker.sampling.uniforms``."""
    counter = (frame * CODEBOOKS + book + 1).to(tl.uint64)
    bits = _mixed(_mixed(seed.to(tl.uint64)) + counter * 0x9E3779B97F4A7C15)
    return (bits >> 32).to(tl.float64) * 2.3283064365386963e-10


@triton.jit
def _kth_largest(order, k, top):
    """Return a threshold: the largest t such that at least k entries of ``order`` (int32) are >= t.

    It may return another t that selects the same entries. top: the largest entry.
    """
    low = tl.full((), LEAST, tl.int64)
    high = top.to(tl.int64)
    while low < high:
        middle = (low + high + 1) >> 1
        count = tl.sum((order >= middle).to(tl.int32))
        low = tl.where(count >= k, middle, low)
        high = tl.where(count > k, high, tl.where(count == k, middle, middle - 1))
    return low


@triton.jit
def _tail_end(order, weight, limit, top):
    """Return the smallest t such that entries <= t have a total weight above ``limit``. top: the largest entry."""
    low = tl.full((), LEAST, tl.int64)
    high = top.to(tl.int64)
    while low < high:
        middle = (low + high) >> 1
        heavy = tl.sum(tl.where(order <= middle, weight, 0.0)) > limit
        high = tl.where(heavy, middle, high)
        low = tl.where(heavy, low, middle + 1)
    return high


@triton.jit
def _without_tail(weight, order, kept, top, v, top_p):
    """Apply top-p: keep the smallest set of most likely ids whose mass reaches top_p.

    Equal scores are dropped in the order of their ids. The last id with the top score is never dropped.
    """
    limit = (1.0 - top_p).to(tl.float64) * tl.sum(weight)
    edge = _tail_end(order, weight, limit, top)
    below = tl.sum(tl.where(order < edge, weight, 0.0))
    at_edge = kept & (order == edge)
    reached = below + tl.cumsum(tl.where(at_edge, weight, 0.0))
    last = tl.max(tl.where(order == top, v, -1))
    dropped = ((order < edge) | (at_edge & (reached <= limit))) & (v != last)
    return tl.where(dropped, 0.0, weight)


@triton.jit
def drawn_code(logits, v, temperature, top_k, top_p, chance, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """Return the code sampled from a row's logits, float32 [BLOCK], -inf from VOCAB on. v: the ids 0 to BLOCK - 1."""
    greedy = temperature == 0.0
    scores = tl.math.div_rn(logits, tl.where(greedy, 1.0, temperature) + tl.zeros((BLOCK,), tl.float32))
    bits = scores.to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    top = tl.max(order)
    kept = v >= 0
    if (top_k > 0) & (top_k < VOCAB):
        kept = order >= _kth_largest(order, top_k, top)
    weight = tl.where(kept, tl.exp(scores - tl.max(scores)), 0.0).to(tl.float64)
    if top_p < 1.0:
        weight = _without_tail(weight, order, kept, top, v, top_p)
    mass = tl.cumsum(weight)
    drawn = tl.sum((mass <= chance * tl.max(mass)).to(tl.int32))
    return tl.minimum(tl.where(greedy, tl.argmax(scores, 0, tie_break_left=True), drawn), VOCAB - 1)


@triton.jit(do_not_specialize=["book", "offset"])
def draw_rows(
    scores_ptr, apart, temperature_ptr, top_k_ptr, top_p_ptr, seeds_ptr, frames_ptr, forced_ptr, logits_ptr, codes_ptr,
    inputs_ptr, offset, x_ptr, book, FORCED: tl.constexpr, BOOKS: tl.constexpr, VOCAB: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, WIDTH_BLOCK: tl.constexpr, NEXT: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Sample the code of ``book`` for row program_id(0), store it, and with NEXT set x to its embedding.

    scores: float32 partial sums [PARTS, rows, VOCAB] of the logits, with stride ``apart`` between parts; codes
    [rows, BOOKS]; offset: the first row of this book in ``inputs``. FORCED: the code is read from ``forced`` instead
    of sampled, and the logits are stored in ``logits`` [rows, VOCAB].
    """
    row, v = tl.program_id(0), tl.arange(0, BLOCK)
    logits = summed(scores_ptr + row * VOCAB + v, apart, PARTS, v < VOCAB)
    if FORCED:
        tl.store(logits_ptr + row * VOCAB + v, logits, v < VOCAB)
        code = tl.load(forced_ptr + row * BOOKS + book).to(tl.int32)
    else:
        logits = tl.where(v < VOCAB, logits, float("-inf"))
        chance = uniform(tl.load(seeds_ptr + row), tl.load(frames_ptr + row), book)
        temperature, top_k = tl.load(temperature_ptr + row), tl.load(top_k_ptr + row)
        code = drawn_code(logits, v, temperature, top_k, tl.load(top_p_ptr + row), chance, VOCAB, BLOCK)
    tl.store(codes_ptr + row * BOOKS + book, code.to(tl.int64))
    if NEXT:
        w = tl.arange(0, WIDTH_BLOCK)
        embedded = tl.load(inputs_ptr + (offset + code).to(tl.int64) * WIDTH + w, w < WIDTH, 0.0)
        tl.store(x_ptr + row * WIDTH + w, embedded.to(tl.float32), w < WIDTH)

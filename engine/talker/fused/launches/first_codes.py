"""Samples codebook 0: applies ``engine.talker.sampling.Codebook0Rules``, samples, and updates the slots' state."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.talker.fused.launches.sampling import drawn_code, uniform


@triton.jit
def draw_first_rows(
    logits_ptr, rows_ptr, whole_ptr, real_ptr, drawn_ptr, seen_ptr, codes_ptr, whole_out_ptr, real_out_ptr,
    SLOTS: tl.constexpr, VOCAB: tl.constexpr, BLOCK: tl.constexpr, SPECIAL: tl.constexpr, EOS: tl.constexpr,
    MIN_TOKENS: tl.constexpr,
):  # fmt: skip
    """Sample codebook 0 for row program_id(0) of slot rows[row], mark the code as seen, and add one to drawn.

    logits [rows, VOCAB]. State of the slots: whole int64 [3, SLOTS] and real float32 [5, SLOTS] as in ``Slots``, drawn
    int64 [SLOTS], seen bytes [SLOTS, VOCAB].
    Outputs, with the parameters of codebooks 1 to 15: whole_out int64 [3, rows] with seed, frame and top-k; real_out
    float32 [2, rows] with temperature and top-p.
    """
    row, rows, v = tl.program_id(0), tl.num_programs(0), tl.arange(0, BLOCK)
    slot = tl.load(rows_ptr + row)
    seed, frame = tl.load(whole_ptr + slot), tl.load(drawn_ptr + slot)
    inside = v < VOCAB
    logits = tl.load(logits_ptr + row * VOCAB + v, inside, float("-inf")).to(tl.float32)
    seen = tl.load(seen_ptr + slot * VOCAB + v, inside, 0) != 0
    penalty = tl.load(real_ptr + slot) + tl.zeros((BLOCK,), tl.float32)
    penalized = tl.where(logits < 0, logits * penalty, tl.math.div_rn(logits, penalty))
    logits = tl.where(seen, penalized, logits)
    allowed = (v < VOCAB - SPECIAL) | ((v == EOS) & (frame >= MIN_TOKENS))
    logits = tl.where(allowed, logits, float("-inf"))

    temperature, top_p = tl.load(real_ptr + SLOTS + slot), tl.load(real_ptr + 2 * SLOTS + slot)
    top_k = tl.load(whole_ptr + SLOTS + slot)
    code = drawn_code(logits, v, temperature, top_k, top_p, uniform(seed, frame, 0), VOCAB, BLOCK)
    tl.store(codes_ptr + row, code.to(tl.int64))
    tl.store(seen_ptr + slot * VOCAB + code, 1)
    tl.store(drawn_ptr + slot, frame + 1)

    tl.store(whole_out_ptr + row, seed)
    tl.store(whole_out_ptr + rows + row, frame)
    tl.store(whole_out_ptr + 2 * rows + row, tl.load(whole_ptr + 2 * SLOTS + slot))
    tl.store(real_out_ptr + row, tl.load(real_ptr + 3 * SLOTS + slot))
    tl.store(real_out_ptr + rows + row, tl.load(real_ptr + 4 * SLOTS + slot))

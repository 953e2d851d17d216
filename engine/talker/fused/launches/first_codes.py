"""Drawing codebook 0: the rules of ``engine.talker.sampling.Codebook0Rules``, the draw, and what is noted of it."""

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
    """Row program_id(0), of slot rows[row]: its code of codebook 0, which its slot remembers; one more frame is drawn.

    logits [rows, VOCAB]; of slots: whole int64 [3, SLOTS] and real float32 [5, SLOTS], as ``Slots`` has them, drawn
    int64 [SLOTS], seen bytes [SLOTS, VOCAB].
    Out, for the codes that follow: whole int64 [3, rows] of seed, frame, top-k; real float32 [2, rows] of temperature,
    top-p.
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

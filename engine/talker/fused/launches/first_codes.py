"""Samples codebook 0: applies ``engine.talker.sampling.Codebook0Rules``, samples, and updates the slots' state."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.triton_launch import settle_cache_keys
from engine.talker.fused.launches.sampling import sample_code, uniform
from engine.talker.sampling_params import COLUMN_INDEX

REPETITION_PENALTY: tl.constexpr = tl.constexpr(COLUMN_INDEX["repetition_penalty"])


@triton.jit
def _gather_row(from_ptr, from_rows, from_row, to_ptr, to_rows, to_row, COLUMNS: tl.constexpr):
    """Copy row ``from_row`` of all columns [COLUMNS, from_rows] to row ``to_row`` of [COLUMNS, to_rows]."""
    for column in tl.static_range(COLUMNS):
        value = tl.load(from_ptr + column * from_rows + from_row)
        tl.store(to_ptr + column * to_rows + to_row, value)


@triton.jit(do_not_specialize_on_alignment=["slots_ptr"])
def sample_first_rows(
    logits_ptr, slots_ptr, slot_seeds_ptr, slot_frames_ptr, seen_ptr, int_params_ptr, float_params_ptr,
    residual_int_params_ptr, residual_float_params_ptr, codes_ptr, seeds_ptr, frames_ptr, row_int_params_ptr,
    row_float_params_ptr, SLOTS: tl.constexpr, INT_COLUMNS: tl.constexpr, FLOAT_COLUMNS: tl.constexpr,
    VOCAB: tl.constexpr, BLOCK: tl.constexpr, SPECIAL: tl.constexpr, EOS: tl.constexpr, MIN_TOKENS: tl.constexpr,
):  # fmt: skip
    """Sample codebook 0 for row program_id(0) of slot slots[row], mark the code as seen, and count the frame.

    logits [rows, VOCAB]. State of the slots: slot_seeds and slot_frames (the number of frames made), int64 [SLOTS];
    seen, bytes [SLOTS, VOCAB]; ``SamplingTensors`` of codebook 0 (int_params, float_params) and of codebooks 1 to 15
    (residual_int_params, residual_float_params).
    Outputs: codes, and what codebooks 1 to 15 are sampled with: seeds and frames, int64 [rows], and the
    ``SamplingTensors`` of the rows (row_int_params, row_float_params).
    """
    row, rows, ids = tl.program_id(0), tl.num_programs(0), tl.arange(0, BLOCK)
    slot = tl.load(slots_ptr + row)
    seed, frame = tl.load(slot_seeds_ptr + slot), tl.load(slot_frames_ptr + slot)
    inside = ids < VOCAB
    logits = tl.load(logits_ptr + row * VOCAB + ids, inside, float("-inf")).to(tl.float32)
    seen = tl.load(seen_ptr + slot * VOCAB + ids, inside, 0) != 0
    penalty = tl.load(float_params_ptr + SLOTS * REPETITION_PENALTY + slot) + tl.zeros((BLOCK,), tl.float32)
    penalized = tl.where(logits < 0, logits * penalty, tl.math.div_rn(logits, penalty))
    logits = tl.where(seen, penalized, logits)
    allowed = (ids < VOCAB - SPECIAL) | ((ids == EOS) & (frame >= MIN_TOKENS))
    logits = tl.where(allowed, logits, float("-inf"))

    random = uniform(seed, frame, 0)
    code = sample_code(logits, ids, int_params_ptr, float_params_ptr, SLOTS, slot, random, VOCAB, BLOCK)
    tl.store(codes_ptr + row, code.to(tl.int64))
    tl.store(seen_ptr + slot * VOCAB + code, 1)
    tl.store(slot_frames_ptr + slot, frame + 1)

    tl.store(seeds_ptr + row, seed)
    tl.store(frames_ptr + row, frame)
    _gather_row(residual_int_params_ptr, SLOTS, slot, row_int_params_ptr, rows, row, INT_COLUMNS)
    _gather_row(residual_float_params_ptr, SLOTS, slot, row_float_params_ptr, rows, row, FLOAT_COLUMNS)


settle_cache_keys(__name__)

"""The Triton kernels of the code predictor match plain torch: interpreted, or on a GPU with TEST_DEVICE=cuda."""

import pytest
import torch

from engine.checkpoint.architecture import Transformer
from engine.talker.fused.dispatch import self_check
from engine.talker.fused.reference import ReferencePredictor
from engine.talker.fused.tiles import Tile
from engine.talker.fused.triton import FusedFirstCodes, TritonCodes
from engine.talker.gpu_step.frame_sampler import PlainFirstCodes
from engine.talker.gpu_step.slots import Slots
from tests.support.code_predictors import architecture, predictor_inputs, random_slots, random_weights, relative
from tests.support.talkers import DEVICE

SMALL = Transformer(hidden=96, intermediate=160, layers=2, heads=4, kv_heads=2, head_dim=32, rope_theta=1e6, eps=1e-6)
SLOTS = 12
TILED = Transformer(hidden=64, intermediate=96, layers=2, heads=4, kv_heads=2, head_dim=32, rope_theta=1e6, eps=1e-6)
TILES = {
    "qkv": {8: Tile(16, 32, 16, 2, 2), 16: Tile(16, 64, 32, 2)},
    "out": {8: Tile(16, 32, 16, 2, 4), 16: Tile(16, 32, 32, 2, 2)},
    "gate_up": {16: Tile(16, 32, 32, 2)},
    "down": {8: Tile(16, 32, 16, 2, 3)},
    "head": {16: Tile(16, 32, 16, 2, 4)},
}
"""Tiles for the passes of 5 rows: the first has 10 rows, the others 5. With 9 rows, the first pass (18) uses cuBLAS."""


@pytest.mark.parametrize(("rows", "talker_hidden"), [(1, 96), (5, 96), (3, 128)])
def test_codebooks_1_to_15(rows, talker_hidden):
    sizes = {"vocab": 100, "codebooks": 4, "talker_hidden": talker_hidden}
    weights = random_weights(SMALL, **sizes, dtype=torch.float32, device=DEVICE)
    codes, reference = TritonCodes(weights, 8), ReferencePredictor(weights, 8)
    for seed in range(2):
        inputs = predictor_inputs(weights, rows, seed=seed, mixed=True)
        drawn, embedding = codes(**inputs)
        reference_codes, reference_embedding, _ = reference.run(**inputs)
        assert torch.equal(drawn, reference_codes)
        torch.testing.assert_close(embedding, reference_embedding)
        forced = reference_codes.flip(0).contiguous()
        codes(**inputs, forced=forced)
        assert relative(codes.logits[:, :rows].transpose(0, 1), reference.run(**inputs, forced=forced)[2]) < 1e-5


@pytest.mark.parametrize("rows", [5, 9])
def test_products_with_split_columns(rows):
    """In float32, although only bfloat16 uses them on a GPU: the same codes, and logits up to the order of sums."""
    weights = random_weights(TILED, vocab=96, codebooks=3, talker_hidden=64, dtype=torch.float32, device=DEVICE)
    codes, reference = TritonCodes(weights, 16, TILES), ReferencePredictor(weights, 16)
    inputs = predictor_inputs(weights, rows, mixed=True)
    reference_codes, _, logits = reference.run(**inputs)
    assert torch.equal(codes(**inputs)[0], reference_codes)
    codes(**inputs, forced=reference_codes)
    assert relative(codes.logits[:, :rows].transpose(0, 1), logits) < 1e-5


def test_codebook_0():
    """Three frames: two in which the utterance may not end, and one in which it may. Previous codes are penalized."""
    talker = architecture(SMALL, vocab=100, codebooks=16, talker_hidden=96)
    plain, fused = (slots_of(talker) for _ in range(2))
    generator = torch.Generator().manual_seed(8)
    rows = torch.tensor([3, 0, 7, 1, 9, 4, plain.padding_row]).to(DEVICE)
    for frame in range(3):
        logits = torch.randn(len(rows), talker.vocab, generator=generator)
        logits[: 2 + frame, talker.ids.eos] += 20
        expected = PlainFirstCodes(plain)(logits.to(DEVICE), rows)
        result = FusedFirstCodes(fused)(logits.to(DEVICE), rows)
        assert torch.equal(result.codes, expected.codes)
        assert (expected.codes == talker.ids.eos).any() == (frame == 2)
        for one, other in zip(
            (*result.residual_params, *result.rng), (*expected.residual_params, *expected.rng), strict=True
        ):
            assert torch.equal(one, other)
        assert torch.equal(fused.codebook0_rules.seen, plain.codebook0_rules.seen)
        assert torch.equal(fused.frames_made, plain.frames_made)


def test_the_kernels_pass_their_self_check():
    weights = random_weights(SMALL, vocab=100, codebooks=4, talker_hidden=128, dtype=torch.float32, device=DEVICE)
    for rows in (1, 8):
        self_check(TritonCodes(weights, 8), rows, weights)
    slots = slots_of(architecture(SMALL, vocab=100, codebooks=16, talker_hidden=96))
    FusedFirstCodes(slots).self_check()
    assert not slots.frames_made[: slots.padding_row].any()
    assert not slots.codebook0_rules.seen[: slots.padding_row].any()


def slots_of(talker):
    slots = Slots(SLOTS, 64, talker, text_pad=0, device=DEVICE, dtype=torch.float32)
    at = torch.arange(SLOTS).to(DEVICE)
    slots.reset(at, **random_slots(SLOTS, torch.Generator().manual_seed(9), DEVICE))
    return slots

"""The Triton launches draw what plain torch draws: interpreted, or with TEST_DEVICE=cuda on the GPU that is there."""

import pytest
import torch

from engine.checkpoint.architecture import Transformer
from engine.talker.fused.dispatch import self_check
from engine.talker.fused.reference import ReferencePredictor
from engine.talker.fused.tiles import Tile
from engine.talker.fused.triton import FusedFirstCodes, TritonCodes
from engine.talker.gpu_step.sampler import PlainFirstCodes
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
"""For the passes of 5 rows: of 10, and then of 5. Of 9 the first, of 18, is cuBLAS's."""


@pytest.mark.parametrize(("rows", "talker_hidden"), [(1, 96), (5, 96), (3, 128)])
def test_codebooks_1_to_15(rows, talker_hidden):
    sizes = {"vocab": 100, "codebooks": 4, "talker_hidden": talker_hidden}
    weights = random_weights(SMALL, **sizes, dtype=torch.float32, device=DEVICE)
    codes, twin = TritonCodes(weights, 8), ReferencePredictor(weights, 8)
    for seed in range(2):
        asked = predictor_inputs(weights, rows, seed=seed, mixed=True)
        drawn, embedding = codes(**asked)
        twins, twins_embedding, _ = twin.run(**asked)
        assert torch.equal(drawn, twins)
        torch.testing.assert_close(embedding, twins_embedding)
        forced = twins.flip(0).contiguous()
        codes(**asked, forced=forced)
        assert relative(codes.logits[:, :rows].transpose(0, 1), twin.run(**asked, forced=forced)[2]) < 1e-5


@pytest.mark.parametrize("rows", [5, 9])
def test_products_that_share_out_their_columns(rows):
    """In float32, as on the GPU only bfloat16 has them: the same codes, and logits but for the order of sums."""
    weights = random_weights(TILED, vocab=96, codebooks=3, talker_hidden=64, dtype=torch.float32, device=DEVICE)
    codes, twin = TritonCodes(weights, 16, TILES), ReferencePredictor(weights, 16)
    asked = predictor_inputs(weights, rows, mixed=True)
    twins, _, logits = twin.run(**asked)
    assert torch.equal(codes(**asked)[0], twins)
    codes(**asked, forced=twins)
    assert relative(codes.logits[:, :rows].transpose(0, 1), logits) < 1e-5


def test_codebook_0():
    """In three frames: two in which nothing may end, and one in which it may; codes drawn before are penalised."""
    talker = architecture(SMALL, vocab=100, codebooks=16, talker_hidden=96)
    plain, fused = (slots_of(talker) for _ in range(2))
    generator = torch.Generator().manual_seed(8)
    rows = torch.tensor([3, 0, 7, 1, 9, 4, plain.scratch]).to(DEVICE)
    for frame in range(3):
        logits = torch.randn(len(rows), talker.vocab, generator=generator)
        logits[: 2 + frame, talker.ids.eos] += 20
        want = PlainFirstCodes(plain)(logits.to(DEVICE), rows)
        got = FusedFirstCodes(fused)(logits.to(DEVICE), rows)
        assert torch.equal(got.codes, want.codes)
        assert (want.codes == talker.ids.eos).any() == (frame == 2)
        for one, other in zip((*got.params, *got.rng), (*want.params, *want.rng), strict=True):
            assert torch.equal(one, other)
        assert torch.equal(fused.rules.seen, plain.rules.seen)
        assert torch.equal(fused.frames_made, plain.frames_made)


def test_the_launches_can_be_tried_out():
    weights = random_weights(SMALL, vocab=100, codebooks=4, talker_hidden=128, dtype=torch.float32, device=DEVICE)
    for rows in (1, 8):
        self_check(TritonCodes(weights, 8), rows, weights)
    slots = slots_of(architecture(SMALL, vocab=100, codebooks=16, talker_hidden=96))
    FusedFirstCodes(slots).self_check()
    assert not slots.frames_made[: slots.scratch].any()
    assert not slots.rules.seen[: slots.scratch].any()


def slots_of(talker):
    slots = Slots(SLOTS, 64, talker, text_pad=0, device=DEVICE, dtype=torch.float32)
    at = torch.arange(SLOTS).to(DEVICE)
    slots.join(at, **random_slots(SLOTS, torch.Generator().manual_seed(9), DEVICE))
    return slots

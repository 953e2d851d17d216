"""The source of the batched kernel computes the same as the reference implementation, in any order of threads."""

import shutil
from dataclasses import replace

import pytest
import torch

from engine.talker.fused.batched import BatchedCodes, alternate_octs, kernels_for, pack_tiles
from engine.talker.fused.persistent import Sizes
from engine.talker.fused.reference import ReferencePredictor
from tests.support.code_predictors import PUBLISHED, predictor_inputs, relative
from tests.unit.fused.emulated import BATCHED, TWO_GROUPS, emulated_batched_kernel, weights_of


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile the kernel with")
@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        pytest.param(replace(BATCHED, rows=8, talker_hidden=256), 3, id="one group, without projection"),
        pytest.param(replace(TWO_GROUPS, rows=8), 13, id="two groups, two rows per block"),
    ],
)
def test_codes_and_logits_agree_with_the_reference(sizes, rows, tmp_path):
    weights = weights_of(sizes)
    codes = BatchedCodes(weights, {sizes: emulated_batched_kernel(tmp_path, sizes, seed=rows)})
    reference, inputs = ReferencePredictor(weights, rows), predictor_inputs(weights, rows, seed=rows, mixed=True)
    codes(**inputs)
    drawn, embedding = (each.clone() for each in codes(**inputs))
    reference_codes, _, reference_logits = reference.run(**inputs)
    assert torch.equal(embedding, weights.tables[drawn + weights.offsets].float().sum(1).to(weights.dtype))
    assert (drawn == reference_codes).float().mean() > 0.9, "a code may differ if two are equally likely"
    codes(**inputs, forced=reference_codes)
    assert relative(codes.logits(rows).transpose(0, 1), reference_logits) < 3e-3


def test_a_packed_tile_has_the_chunks_of_a_row_at_other_places():
    matrix = torch.arange(64 * 256).view(64, 256)
    tiles = pack_tiles(matrix, 32)
    assert tiles.shape == (2, 2, 4, 2, 8, 64)
    assert torch.equal(tiles[1, 1, 2, 1, 5].view(8, 8)[3], matrix[32 + 16 + 5, 128 + 64 + (3 ^ 5) * 8 :][:8])
    assert torch.equal(tiles.flatten().sort().values, matrix.flatten())


def test_octs_of_gates_alternate_with_octs_of_ups():
    rows = alternate_octs(torch.arange(64)[:, None])[:, 0].view(8, 8)
    assert rows[:, 0].tolist() == [0, 32, 8, 40, 16, 48, 24, 56]


def test_only_the_kernels_that_batches_need_are_compiled():
    sizes = Sizes(PUBLISHED, 2048, 16, 2048)
    assert [each.max_rows for each in kernels_for(sizes, [24, 32])] == [32]
    assert [each.max_rows for each in kernels_for(sizes, [24, 40, 192])] == [32, 64, 256]

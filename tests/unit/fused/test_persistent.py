"""The persistent kernel's own source computes what its twin does, in whatever order the GPU's threads run."""

import shutil
from dataclasses import replace

import pytest
import torch

from engine.talker.fused.fp8 import round_to_fp8
from engine.talker.fused.persistent import PersistentCodes, kernel_for
from engine.talker.fused.reference import ReferencePredictor
from tests.support.code_predictors import predictor_inputs, relative
from tests.unit.fused.emulated import LIKE_PUBLISHED, SMALL, WITHOUT_PROJECTION, emulated, weights_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile the kernel with")


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        pytest.param(WITHOUT_PROJECTION, 1, id="one row"),
        pytest.param(SMALL, 11, id="both halves of a tile"),
        pytest.param(LIKE_PUBLISHED, 2, id="published slices"),
    ],
)
def test_codes_and_logits_are_the_twins(sizes, rows, tmp_path):
    weights = weights_of(sizes)
    kernel = kernel_for(rows)
    codes = PersistentCodes(weights, sizes, {kernel: emulated(tmp_path, sizes, kernel, seed=rows)})
    twin, asked = ReferencePredictor(weights, rows), predictor_inputs(weights, rows, seed=rows, mixed=True)
    codes(**asked)
    drawn, embedding = (each.clone() for each in codes(**asked))
    _, _, twins_logits = twin.run(**asked, forced=drawn)
    assert relative(codes.logits[:rows], twins_logits) < 3e-3
    assert torch.equal(embedding, weights.tables[drawn + weights.offsets].float().sum(1).to(weights.dtype))
    twins, _, twins_logits = twin.run(**asked)
    assert (drawn == twins).float().mean() > 0.9, "a code may differ where two are as likely"
    codes(**asked, forced=twins)
    assert relative(codes.logits[:rows], twins_logits) < 3e-3


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [pytest.param(WITHOUT_PROJECTION, 1, id="one row"), pytest.param(SMALL, 11, id="both halves of a tile")],
)
def test_eight_bits_are_read_as_the_numbers_that_they_stand_for(sizes, rows, tmp_path):
    weights, kernel = round_to_fp8(weights_of(sizes)), kernel_for(rows)
    found = []
    for each in (sizes, replace(sizes, fp8=True)):
        folder = tmp_path / str(each.fp8)
        folder.mkdir()
        codes = PersistentCodes(weights, each, {kernel: emulated(folder, each, kernel, seed=rows)})
        drawn, embedding = codes(**predictor_inputs(weights, rows, seed=rows, mixed=True))
        found.append((drawn, embedding, codes.logits[:rows]))
        assert codes._fixed["stream"].element_size() == (1 if each.fp8 else 2)
    for whole, narrow in zip(*found, strict=True):
        assert torch.equal(whole, narrow)

"""The source of the persistent kernel computes the same as the reference implementation, in any order of threads."""

import shutil
from dataclasses import replace

import pytest
import torch

from engine.talker.fused.fp8 import round_to_fp8
from engine.talker.fused.persistent import PersistentCodes, kernel_for
from engine.talker.fused.reference import ReferencePredictor
from tests.support.code_predictors import predictor_inputs, relative
from tests.unit.fused.emulated import LIKE_PUBLISHED, SMALL, WITHOUT_PROJECTION, emulated_kernel, weights_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile the kernel with")


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        pytest.param(WITHOUT_PROJECTION, 1, id="one row"),
        pytest.param(SMALL, 11, id="both halves of a tile"),
        pytest.param(LIKE_PUBLISHED, 2, id="published slices"),
    ],
)
def test_codes_and_logits_agree_with_the_reference(sizes, rows, tmp_path):
    weights = weights_of(sizes)
    kernel = kernel_for(rows)
    codes = PersistentCodes(weights, sizes, {kernel: emulated_kernel(tmp_path, sizes, kernel, seed=rows)})
    reference, inputs = ReferencePredictor(weights, rows), predictor_inputs(weights, rows, seed=rows, mixed=True)
    codes(**inputs)
    drawn, embedding = (each.clone() for each in codes(**inputs))
    _, _, reference_logits = reference.run(**inputs, forced=drawn)
    assert relative(codes.logits[:rows], reference_logits) < 3e-3
    assert torch.equal(embedding, weights.tables[drawn + weights.offsets].float().sum(1).to(weights.dtype))
    reference_codes, _, reference_logits = reference.run(**inputs)
    assert (drawn == reference_codes).float().mean() > 0.9, "a code may differ if two are equally likely"
    codes(**inputs, forced=reference_codes)
    assert relative(codes.logits[:rows], reference_logits) < 3e-3


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [pytest.param(WITHOUT_PROJECTION, 1, id="one row"), pytest.param(SMALL, 11, id="both halves of a tile")],
)
def test_fp8_weights_give_the_same_bits_as_the_same_values_in_bfloat16(sizes, rows, tmp_path):
    weights, kernel = round_to_fp8(weights_of(sizes)), kernel_for(rows)
    results = []
    for each in (sizes, replace(sizes, fp8=True)):
        folder = tmp_path / str(each.fp8)
        folder.mkdir()
        codes = PersistentCodes(weights, each, {kernel: emulated_kernel(folder, each, kernel, seed=rows)})
        drawn, embedding = codes(**predictor_inputs(weights, rows, seed=rows, mixed=True))
        results.append((drawn, embedding, codes.logits[:rows]))
        assert codes._fixed["stream"].element_size() == (1 if each.fp8 else 2)
    for bf16, fp8 in zip(*results, strict=True):
        assert torch.equal(bf16, fp8)

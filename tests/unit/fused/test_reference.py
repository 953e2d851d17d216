"""In float32 the reference implementation of the fused code predictor equals the engine's plain one."""

import pytest
import torch

from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide
from engine.models.weights import Weights
from engine.talker.fused.reference import ReferencePredictor
from engine.talker.fused.weights import gather
from engine.talker.gpu_step.frame_sampler import PlainResidualCodes
from tests.support.code_predictors import predictor_inputs, select_rows

ROWS = 32


@pytest.mark.parametrize("variant", ["0b6-custom_voice", "1b7-custom_voice"])
def test_codes_and_embeddings_equal_the_plain_code_predictor(variant, opened):
    checkpoint = opened[variant]
    talker = checkpoint.model.talker
    weights = Weights(checkpoint.tensors("talker."), torch.device("cpu"), torch.float32)
    codec, predictor = CodecSide(weights, talker), weights.under("code_predictor.")
    plain = PlainResidualCodes(CodePredictor(predictor, talker, code_tables=codec.tables, rows=ROWS), codec)
    reference = ReferencePredictor(gather(predictor, talker, codec), ROWS)
    for seed, rows in enumerate((1, 3, ROWS)):
        inputs = predictor_inputs(reference.weights, rows, seed=seed, mixed=True)
        codes, embedding = plain(**inputs)
        reference_codes, reference_embedding = reference(**inputs)
        assert torch.equal(reference_codes, codes)
        torch.testing.assert_close(reference_embedding, embedding, rtol=1e-5, atol=1e-5)


def test_rows_are_independent(opened):
    checkpoint = opened["0b6-custom_voice"]
    talker = checkpoint.model.talker
    weights = Weights(checkpoint.tensors("talker."), torch.device("cpu"), torch.float32)
    reference = ReferencePredictor(gather(weights.under("code_predictor."), talker, CodecSide(weights, talker)), ROWS)
    inputs = predictor_inputs(reference.weights, 7, mixed=True)
    together, _ = reference(**inputs)
    for rows in (slice(0, 1), slice(2, 5)):
        alone, _ = reference(**select_rows(inputs, rows))
        assert torch.equal(alone, together[rows])

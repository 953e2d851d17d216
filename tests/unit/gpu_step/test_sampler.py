"""A frame is drawn without looking at any value, as a captured graph must."""

import pytest
import torch

from engine.kernels.linear import Linear
from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide
from engine.models.weights import Weights
from engine.talker.gpu_step.sampler import FrameSampler, PlainResidualCodes
from engine.talker.gpu_step.slots import Slots

NOWHERE = torch.device("meta")
"""Tensors there have shapes and no values: whatever needs one fails."""


@pytest.mark.parametrize("variant", ["0b6-custom_voice", "1b7-custom_voice"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_frame_needs_no_value_on_the_host(variant, dtype, opened):
    checkpoint = opened[variant]
    talker = checkpoint.model.talker
    weights = Weights(checkpoint.tensors("talker."), NOWHERE, dtype)
    slots = Slots(8, 64, talker, text_pad=0, device=NOWHERE, dtype=dtype)
    codec = CodecSide(weights, talker)
    predictor = CodePredictor(weights.under("code_predictor."), talker, code_tables=codec.tables, rows=8)
    tail = FrameSampler(Linear(weights["codec_head.weight"]), slots, PlainResidualCodes(predictor, codec))
    hidden = torch.empty(4, talker.transformer.hidden, device=NOWHERE, dtype=dtype)
    codes = tail(hidden, torch.empty(4, dtype=torch.int64, device=NOWHERE))
    assert (codes.shape, codes.dtype) == ((4, 16), torch.int64)

"""A frame is sampled without reading a value on the host, as CUDA graph capture requires."""

import pytest
import torch

from engine.kernels.linear import Linear
from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide
from engine.models.weights import Weights
from engine.talker.gpu_step.frame_sampler import FrameSampler, PlainResidualCodes
from engine.talker.gpu_step.slots import Slots

META = torch.device("meta")
"""Tensors on the meta device have shapes but no values: any read of a value fails."""


@pytest.mark.parametrize("variant", ["0b6-custom_voice", "1b7-custom_voice"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sampling_a_frame_reads_no_value_on_the_host(variant, dtype, opened):
    checkpoint = opened[variant]
    talker = checkpoint.model.talker
    weights = Weights(checkpoint.tensors("talker."), META, dtype)
    slots = Slots(8, 64, talker, text_pad=0, device=META, dtype=dtype)
    codec = CodecSide(weights, talker)
    predictor = CodePredictor(weights.under("code_predictor."), talker, code_tables=codec.tables, rows=8)
    sample_frame = FrameSampler(Linear(weights["codec_head.weight"]), slots, PlainResidualCodes(predictor, codec))
    hidden = torch.empty(4, talker.transformer.hidden, device=META, dtype=dtype)
    codes = sample_frame(hidden, torch.empty(4, dtype=torch.int64, device=META))
    assert (codes.shape, codes.dtype) == ((4, 16), torch.int64)

"""What draws a frame's codes where there is no GPU for the kernels, and how batches are shared out."""

import logging

import torch

from engine.architecture import Transformer
from engine.talker.fused.choice import BySize, first_codes, residual_codes
from engine.talker.resident.first_codes import PlainFirstCodes
from engine.talker.resident.residual import PlainResidualCodes
from engine.talker.resident.slots import Slots
from tests.predictors import architecture, question, random_talker, random_weights

SMALL = Transformer(hidden=64, intermediate=96, layers=1, heads=2, kv_heads=1, head_dim=32, rope_theta=1e6, eps=1e-6)
SIZES = {"vocab": 64, "books": 4, "talker_hidden": 64}


def test_a_cpu_has_plain_torch_and_the_log_says_so(caplog):
    caplog.set_level(logging.INFO)
    made = random_talker(SMALL, dtype=torch.float32, **SIZES)
    assert isinstance(residual_codes(*made, 4), PlainResidualCodes)
    assert "plain torch: there is no GPU" in caplog.text
    slots = Slots(4, 8, architecture(SMALL, **SIZES), text_pad=0, device=torch.device("cpu"), dtype=torch.float32)
    assert isinstance(first_codes(slots), PlainFirstCodes)


def test_batches_up_to_a_limit_have_codes_of_their_own():
    weights = random_weights(SMALL, dtype=torch.float32, **SIZES)

    def marked(mark):
        return lambda hidden, first, draws, chance: (torch.full((len(hidden), 4), mark), hidden)

    codes = BySize(marked(1), 2, marked(2))
    assert [int(codes(**question(weights, rows))[0].max()) for rows in (1, 2, 3)] == [1, 1, 2]

"""Sampling distributions match the reference implementation."""

import numpy as np
import pytest
import torch

from engine.talker.sampling import Codebook0Rules, Sampler
from engine.talker.sampling_params import CodebookParams
from tests.parity import golden_cases

CPU = torch.device("cpu")


@pytest.mark.parametrize("case", range(5))
def test_probabilities_match_the_reference(case):
    golden = golden_cases.load("sampling")
    temperature, top_k, top_p, penalty = golden[f"par_{case}"].tolist()
    rules = Codebook0Rules(int(golden["vocab"]), int(golden["eos"]), slots=3, device=CPU)
    slot = torch.tensor([1])
    for token in golden[f"hist_{case}"].tolist():
        rules.remember(slot, torch.tensor([token]))
    frames = torch.tensor([len(golden[f"hist_{case}"])])
    logits = torch.from_numpy(golden[f"logits_{case}"]).float()[None]
    allowed = rules.apply(logits, slot, torch.tensor([[penalty]]), frames)
    probabilities = Sampler.of([CodebookParams(temperature, int(top_k), top_p)], CPU).probabilities(allowed)[0]
    np.testing.assert_allclose(probabilities.numpy(), golden[f"probs_{case}"], rtol=1e-5, atol=1e-7)

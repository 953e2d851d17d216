"""What the host knows of the parameters changes no code, and neither do other rows."""

import pytest
import torch

from engine.talker.sampling import Sampler
from engine.talker.sampling_params import CodebookParams, SamplingTensors

CPU = torch.device("cpu")
PARAMS = [
    CodebookParams(0.0, 0, 1.0),
    CodebookParams(0.9, 0, 1.0),
    CodebookParams(0.9, 50, 1.0),
    CodebookParams(0.6, 1, 1.0),
    CodebookParams(1.4, 5, 0.8),
    CodebookParams(0.9, 0, 0.3),
    CodebookParams(0.9, 5000, 0.0),
    CodebookParams(1.0, 3, 0.999),
]


BATCHES = [range(8), [0], [2], [0, 2], [1, 2, 3], [5], [4, 5, 6]]
"""Numbers of PARAMS: a mixed batch, then batches of which the host knows that some work is not needed."""


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("kind", ["any", "tied", "forbidden"])
def test_codes_are_the_same_without_knowing_the_parameters(kind, batch):
    generator = torch.Generator().manual_seed(5)
    rows = [PARAMS[number] for number in batch] * 40
    logits = torch.randn(len(rows), 300, generator=generator) * 3
    if kind == "tied":
        logits = logits.round()
    if kind == "forbidden":
        logits[:, 200:] = float("-inf")
    uniform = torch.rand(len(rows), generator=generator, dtype=torch.float64)
    expected = Sampler(SamplingTensors.of(rows, CPU))(logits, uniform)
    assert torch.equal(Sampler.of(rows, CPU)(logits, uniform), expected)


def test_a_row_draws_the_same_in_any_batch():
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(len(PARAMS), 300, generator=generator)
    uniform = torch.rand(len(PARAMS), generator=generator, dtype=torch.float64)
    together = Sampler(SamplingTensors.of(PARAMS, CPU))(logits, uniform)
    for row, each in enumerate(PARAMS):
        alone = Sampler(SamplingTensors.of([each], CPU))(logits[row : row + 1], uniform[row : row + 1])
        assert alone == together[row]

"""Codes sampled with parameters on the device equal those of the native sampler."""

import pytest
import torch

from engine.talker.gpu_step.slots import RowDraws, draw
from engine.talker.sampling import Draws, Sampler

DRAWS = [
    Draws(0.0, 0, 1.0),
    Draws(0.9, 0, 1.0),
    Draws(0.9, 50, 1.0),
    Draws(0.6, 1, 1.0),
    Draws(1.4, 5, 0.8),
    Draws(0.9, 0, 0.3),
    Draws(0.9, 5000, 0.0),
    Draws(1.0, 3, 0.999),
]


def row_draws(draws):
    return RowDraws(
        torch.tensor([each.temperature for each in draws]),
        torch.tensor([each.top_k for each in draws]),
        torch.tensor([each.top_p for each in draws]),
    )


@pytest.mark.parametrize("kind", ["any", "tied", "forbidden"])
def test_codes_equal_the_native_sampler(kind):
    generator = torch.Generator().manual_seed(5)
    rows = DRAWS * 40
    logits = torch.randn(len(rows), 300, generator=generator) * 3
    if kind == "tied":
        logits = logits.round()
    if kind == "forbidden":
        logits[:, 200:] = float("-inf")
    uniform = torch.rand(len(rows), generator=generator, dtype=torch.float64)
    expected = Sampler(rows, torch.device("cpu"))(logits, uniform)
    assert torch.equal(draw(logits, row_draws(rows), uniform), expected)


def test_a_row_gives_the_same_code_in_any_batch():
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(len(DRAWS), 300, generator=generator)
    uniform = torch.rand(len(DRAWS), generator=generator, dtype=torch.float64)
    together = draw(logits, row_draws(DRAWS), uniform)
    for row, each in enumerate(DRAWS):
        alone = draw(logits[row : row + 1], row_draws([each]), uniform[row : row + 1])
        assert alone == together[row]

"""Codes drawn with parameters on the device are those of the native sampler."""

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


def on_device(draws):
    return RowDraws(
        torch.tensor([each.temperature for each in draws]),
        torch.tensor([each.top_k for each in draws]),
        torch.tensor([each.top_p for each in draws]),
    )


@pytest.mark.parametrize("kind", ["any", "tied", "forbidden"])
def test_codes_equal_the_native_samplers(kind):
    generator = torch.Generator().manual_seed(5)
    rows = DRAWS * 40
    logits = torch.randn(len(rows), 300, generator=generator) * 3
    if kind == "tied":
        logits = logits.round()
    if kind == "forbidden":
        logits[:, 200:] = float("-inf")
    uniform = torch.rand(len(rows), generator=generator, dtype=torch.float64)
    expected = Sampler(rows, torch.device("cpu"))(logits, uniform)
    assert torch.equal(draw(logits, on_device(rows), uniform), expected)


def test_a_row_draws_the_same_in_any_batch():
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(len(DRAWS), 300, generator=generator)
    uniform = torch.rand(len(DRAWS), generator=generator, dtype=torch.float64)
    together = draw(logits, on_device(DRAWS), uniform)
    for row, each in enumerate(DRAWS):
        alone = draw(logits[row : row + 1], on_device([each]), uniform[row : row + 1])
        assert alone == together[row]

"""The kernels of the talker's layers on a GPU at the published sizes, against the reference implementation."""

from functools import cache

import pytest
import torch

from engine.talker.fused.layers import MAX_ROWS, prompt_sizes
from engine.talker.fused.layers_loading import row_layers, talker_layers
from engine.talker.fused.layers_reference import ReferenceLayers
from tests.support.code_predictors import relative
from tests.support.talker_layers import (
    PUBLISHED,
    copied,
    in_float32,
    random_cache,
    random_layers,
    step_of,
    step_with_prompt,
)
from tests.support.talkers import DEVICE

PAGES = 1200
POSITIONS = 4097
BATCHES = {
    "one": [100],
    "first positions": [0, 1, 15, 16],
    "short": [40 + 9 * row for row in range(MAX_ROWS)],
    "several splits": [511, 512, None, 513, 1023, 1024, 4096, 2000, 30],
}
ROWS = {
    "rows, one": [100],
    "rows, first positions": [0, 1, 15, 16, 63, 64, 65],
    "rows, many": [1023, None, 900, *(40 + 9 * row for row in range(50))],
}
"""Batches of ``row_layers``."""
pytestmark = pytest.mark.skipif(
    DEVICE.type != "cuda"
    or torch.cuda.get_device_capability() != (9, 0)
    or torch.cuda.get_device_properties(0).multi_processor_count < 128,
    reason="needs an H100 or H200",
)


@cache
def weights_of(name):
    return random_layers(PUBLISHED[name], POSITIONS, DEVICE)


def states(name, rows, seed=0):
    x = torch.randn(rows, PUBLISHED[name].hidden, generator=torch.Generator().manual_seed(seed))
    return x.to(DEVICE, torch.bfloat16)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(
    ("kernels", "batch"), [*((talker_layers, batch) for batch in BATCHES), *((row_layers, batch) for batch in ROWS)]
)
def test_states_and_cache_agree_with_the_reference_and_with_float32(name, kernels, batch):
    weights, positions = weights_of(name), (BATCHES | ROWS)[batch]
    paged, step, x = (
        random_cache(weights.shape, PAGES, DEVICE),
        step_of(positions, PAGES, DEVICE),
        states(name, len(positions)),
    )
    expected_cache, exact_cache = copied(paged), copied(paged, torch.float32)
    is_padding = [position is None and kernels is row_layers for position in positions]
    used = ~torch.tensor(
        is_padding, device=DEVICE
    )  # padding rows of row_layers read the cache, which has no key of theirs
    result = kernels(weights, paged)(x, *step)[used]
    expected = ReferenceLayers(weights, expected_cache)(x, *step)[used]
    exact = ReferenceLayers(in_float32(weights), exact_cache)(x, *step)[used]
    assert relative(result, expected) < (1e-2 if kernels is talker_layers else 2e-2), "products are rounded to bfloat16"
    assert relative(result, exact) < 2e-2
    for pair, expected_pair in zip(paged, expected_cache, strict=True):
        for one, other in zip(pair, expected_pair, strict=True):
            changed = (one != other).any(3).any(2)
            assert changed.sum() <= len(positions)
            if changed.any():
                assert relative(one[changed], other[changed]) < 2e-2


def test_a_row_has_the_same_bits_in_any_batch_every_time():
    weights, positions = weights_of("1.7B"), [700 if row == 5 else 40 + 9 * row for row in range(MAX_ROWS)]
    paged, step, x = (
        random_cache(weights.shape, PAGES, DEVICE),
        step_of(positions, PAGES, DEVICE),
        states("1.7B", MAX_ROWS),
    )
    layers = talker_layers(weights, paged)
    together = layers(x, *step)
    for rows in (
        slice(0, 1),
        slice(5, 6),
        slice(3, 14),
        torch.arange(MAX_ROWS - 1, -1, -1, device=DEVICE),
    ):
        assert torch.equal(layers(x[rows].contiguous(), *(each[rows].contiguous() for each in step)), together[rows])
    different = torch.zeros((), device=DEVICE, dtype=torch.int64)
    for _ in range(200):
        different += (layers(x, *step) != together).sum()
    assert different.item() == 0


def prompt_layers(weights, cache):
    """The layers in one launch, for steps with prompts."""
    return talker_layers(weights, cache, prompt_sizes(weights.shape))


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(
    ("kernels", "first", "rows"),
    [
        (row_layers, 0, 70),
        (prompt_layers, 0, 24),
        (prompt_layers, 13, 62),
        (prompt_layers, 490, 40),
        (prompt_layers, 0, 1),
    ],
)
def test_rows_of_a_prompt_attend_to_each_other_in_one_step(name, kernels, first, rows):
    """Beside two other utterances, and compared with the reference implementation and with float32."""
    weights, step = weights_of(name), step_with_prompt(first, rows, [200, 800], PAGES, DEVICE)
    paged, x = random_cache(weights.shape, PAGES, DEVICE), states(name, rows + 2)
    expected_cache, exact_cache = copied(paged), copied(paged, torch.float32)
    layers = kernels(weights, paged)
    result = layers(x, *step)
    expected, exact = (
        ReferenceLayers(weights, expected_cache)(x, *step),
        ReferenceLayers(in_float32(weights), exact_cache)(x, *step),
    )
    assert relative(result, expected) < 2e-2
    assert relative(result, exact) < 2e-2
    for pair, expected_pair in zip(paged, expected_cache, strict=True):
        for one, other in zip(pair, expected_pair, strict=True):
            assert (one != other).any(3).any(2).sum() <= rows + 2
            assert relative(one.flatten(0, 1)[step.slots], other.flatten(0, 1)[step.slots]) < 2e-2
    for _ in range(100):
        assert torch.equal(layers(x, *step), result)

"""The Triton kernels of the talker's layers match plain torch: interpreted, or on a GPU with TEST_DEVICE=cuda."""

import pytest
import torch

from engine.checkpoint.architecture import Transformer
from engine.talker.fused.layers_reference import ReferenceLayers
from engine.talker.fused.row_layers import RowLayers
from tests.support.code_predictors import relative
from tests.support.talker_layers import copied, in_float32, random_cache, random_layers, step_of
from tests.support.talkers import DEVICE

SHAPES = {
    "pairs of heads": Transformer(
        hidden=96, intermediate=160, layers=2, heads=4, kv_heads=2, head_dim=32, rope_theta=1e6, eps=1e-6
    ),
    "three heads and one": Transformer(
        hidden=64, intermediate=96, layers=2, heads=3, kv_heads=1, head_dim=64, rope_theta=1e6, eps=1e-6
    ),
}
PAGES = 60


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


def parts(shape):
    """Weights and a cache in float32."""
    weights = in_float32(random_layers(shape, 300, DEVICE))
    return weights, random_cache(shape, PAGES, DEVICE, torch.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("positions", [[100], [0, 1, 15, 16], [70, None, 200, 64, 63, 65, 0]])
def test_states_and_cache_agree_with_the_reference(shape, positions):
    weights, cache = parts(SHAPES[shape])
    step, expected_cache = step_of(positions, PAGES, DEVICE), copied(cache, torch.float32)
    x = torch.randn(len(positions), weights.shape.hidden, device=DEVICE)
    used = torch.tensor([position is not None for position in positions])
    states = RowLayers(weights, cache)(x, *step)
    assert relative(states[used], ReferenceLayers(weights, expected_cache)(x, *step)[used]) < 1e-5
    for pair, expected in zip(cache, expected_cache, strict=True):
        for one, other in zip(pair, expected, strict=True):
            torch.testing.assert_close(one, other)


def test_inputs_keep_their_values():
    weights, cache = parts(SHAPES["pairs of heads"])
    x = torch.randn(2, weights.shape.hidden, device=DEVICE)
    before = x.clone()
    RowLayers(weights, cache)(x, *step_of([3, 20], PAGES, DEVICE))
    assert torch.equal(x, before)

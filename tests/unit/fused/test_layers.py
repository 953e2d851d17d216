"""The source of the kernel of the talker's layers computes the same as the reference implementation."""

import shutil
import struct
from dataclasses import replace

import pytest
import torch

from engine.talker.fused.layers import LayerSizes, TalkerLayers, prompt_sizes
from engine.talker.fused.layers_reference import ReferenceLayers
from tests.support.code_predictors import relative
from tests.support.talker_layers import PUBLISHED, copied, random_cache, random_layers, step_of, step_with_prompt
from tests.unit.fused.emulated import LAYERS, PROMPT_LAYERS, emulated_layers_kernel

CPU = torch.device("cpu")
PAGES = 130
POSITIONS = 600
ROWS = [
    pytest.param([37], id="one row"),
    pytest.param([0, None, 15, 16, 599, 511, 512, 200], id="several splits, and padding"),
    pytest.param([3, 20, 8, 100, 5, 6, 17, 1, 2, 40], id="two octs"),
]


def encode(matrix, rows):
    """The emulated tensor map: see TensorMap in emulate.h."""
    return struct.pack("QqqQ", matrix.data_ptr(), matrix.shape[1], rows, 0).ljust(128, b"\0")


def emulated(tmp_path_factory, sizes, seed):
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to compile the kernel with")
    return emulated_layers_kernel(tmp_path_factory.mktemp("layers"), sizes, seed)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    return emulated(tmp_path_factory, LAYERS, seed=3)


@pytest.fixture(scope="module")
def prompt_kernel(tmp_path_factory):
    return emulated(tmp_path_factory, PROMPT_LAYERS, seed=5)


def states(rows, seed=0):
    return torch.randn(rows, LAYERS.shape.hidden, generator=torch.Generator().manual_seed(seed)).bfloat16()


def assert_agrees_with_the_reference(kernel, sizes, step):
    """Run a step twice, and compare its states and its cache with those of the reference implementation."""
    rows = len(step.positions)
    weights, cache = random_layers(LAYERS.shape, POSITIONS, CPU), random_cache(LAYERS.shape, PAGES, CPU)
    expected_cache, x = copied(cache), states(rows)
    layers = TalkerLayers(weights, cache, sizes, kernel, encode)
    layers(x, *step)
    result, expected = layers(x, *step), ReferenceLayers(weights, expected_cache)(x, *step)
    assert relative(result, expected) < 3e-3
    for pair, expected_pair in zip(cache, expected_cache, strict=True):
        for one, other in zip(pair, expected_pair, strict=True):
            assert relative(one, other) < 3e-3
            assert (one != other).any((2, 3)).sum() <= rows


@pytest.mark.parametrize("positions", ROWS)
def test_states_and_cache_agree_with_the_reference(kernel, positions):
    assert_agrees_with_the_reference(kernel, LAYERS, step_of(positions, PAGES, CPU))


def test_a_row_has_the_same_bits_alone_and_in_a_batch(kernel):
    weights, cache = random_layers(LAYERS.shape, POSITIONS, CPU), random_cache(LAYERS.shape, PAGES, CPU)
    step, x = step_of([3, 530, 40], PAGES, CPU), states(3)
    together = TalkerLayers(weights, copied(cache), LAYERS, kernel, encode)(x, *step)
    for row in range(3):
        layers = TalkerLayers(weights, copied(cache), LAYERS, kernel, encode)
        one = [each[row : row + 1].contiguous() for each in step]
        assert torch.equal(layers(x[row : row + 1].contiguous(), *one)[0], together[row])


@pytest.mark.parametrize(("first", "rows"), [(0, 20), (7, 12), (250, 19), (30, 1)])
def test_rows_of_a_prompt_attend_to_each_other_beside_other_utterances(prompt_kernel, first, rows):
    step = step_with_prompt(first, rows, [300, 40], PAGES, CPU)
    assert_agrees_with_the_reference(prompt_kernel, PROMPT_LAYERS, step)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_sizes_are_supported(name):
    for sizes in (LayerSizes(PUBLISHED[name]), prompt_sizes(PUBLISHED[name])):
        assert sizes.problem is None
        assert sizes.weight_slots >= 3


def test_other_sizes_are_not_supported():
    shape = PUBLISHED["0.6B"]
    assert "128 dimensions" in LayerSizes(replace(shape, head_dim=64)).problem
    assert "do not divide" in LayerSizes(replace(shape, hidden=1000)).problem

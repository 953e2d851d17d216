"""Packing: every weight is in the stream once, where the warp that multiplies it reads."""

import pytest
import torch

from engine.talker.fused.persistent import pack, published_sizes
from tests.support.code_predictors import PUBLISHED
from tests.unit.fused.emulated import SMALL, weights_of


@pytest.fixture(scope="module")
def weights():
    return weights_of(SMALL)


def test_every_weight_is_packed_once(weights):
    matrices = [weights.project, weights.qkv, weights.out, weights.gate_up, weights.down, weights.heads]
    values = torch.cat([matrix.flatten() for matrix in matrices])
    assert torch.equal(pack(weights, SMALL).flatten().float().sort().values, values.float().sort().values)


def test_a_unit_is_eight_rows_of_32_columns(weights):
    stream = pack(weights, SMALL)
    assert torch.equal(stream[0, 0, 0].view(8, 32), weights.project[:8, :32])
    assert torch.equal(stream[1, 0, 0].view(8, 32), weights.project[64:72, :32])


@pytest.mark.parametrize("talker_hidden", [1024, 2048])
def test_the_published_sizes_are_supported(talker_hidden):
    sizes = published_sizes(PUBLISHED, 2048, 16, talker_hidden)
    assert sizes is not None
    assert sizes.projects == (talker_hidden == 2048)


def test_other_sizes_are_not_supported(weights):
    assert published_sizes(weights.shape, weights.vocab, weights.codebooks, weights.talker_hidden) is None

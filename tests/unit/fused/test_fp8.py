"""fp8 matrices: values that bfloat16 represents, with four significant bits of the weights."""

from dataclasses import replace

import pytest
import torch

from engine.talker.fused.fp8 import Fp8PrecisionError, bfloat16_factor, fp8_scale, pack_fp8, round_to_fp8
from engine.talker.fused.persistent import pack
from tests.support.code_predictors import relative
from tests.unit.fused.emulated import SMALL, WITHOUT_PROJECTION, weights_of

MATRICES = ("project", "qkv", "out", "gate_up", "down", "heads")


@pytest.fixture(scope="module")
def weights():
    return weights_of(SMALL)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rounded_weights_have_four_significant_bits(dtype):
    weights = weights_of(SMALL, dtype)
    after_rounding = round_to_fp8(weights)
    for name in MATRICES:
        before, after = getattr(weights, name), getattr(after_rounding, name)
        assert after.dtype == dtype
        assert 0.01 < relative(after, before) < 0.03
        large = before.abs() > 1e-3
        assert ((after - before).abs()[large] <= before.abs()[large] / 16).all()
    assert torch.equal(after_rounding.tables, weights.tables)


def test_rounding_is_idempotent(weights):
    once = round_to_fp8(weights)
    twice = round_to_fp8(once)
    assert all(torch.equal(getattr(once, name), getattr(twice, name)) for name in MATRICES)


def test_a_predictor_without_a_projection_can_be_rounded():
    assert round_to_fp8(weights_of(WITHOUT_PROJECTION)).project is None


@pytest.mark.parametrize("size", [1e-6, 0.1, 30.0])
def test_rounding_works_at_any_scale(weights, size):
    scaled = replace(weights, **{name: getattr(weights, name) * size for name in MATRICES})
    after_rounding = round_to_fp8(scaled)
    assert max(relative(getattr(after_rounding, name), getattr(scaled, name)) for name in MATRICES) < 0.03


@pytest.mark.parametrize("outlier", [3e4, 1e5, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["qkv", "heads"])
def test_an_outlier_that_spoils_the_scale_is_an_error(weights, name, outlier):
    matrix = getattr(weights, name).clone()
    matrix.view(-1)[-1] = outlier
    with pytest.raises(Fp8PrecisionError, match="relative error"):
        round_to_fp8(replace(weights, **{name: matrix}))


def test_weights_of_zero_can_be_rounded(weights):
    zeros = replace(weights, **{name: torch.zeros_like(getattr(weights, name)) for name in MATRICES})
    assert not round_to_fp8(zeros).heads.any()


def test_a_byte_of_the_packed_stream_is_one_weight(weights):
    after_rounding = round_to_fp8(weights)
    scale, whole = fp8_scale(after_rounding), pack(after_rounding, SMALL)
    narrow = pack_fp8(whole, scale)
    assert narrow.numel() == whole.numel()
    assert narrow.is_contiguous()
    numbers = narrow.view(torch.float8_e4m3fn).float() * 2.0**-scale
    lane, one, other = numbers[1, 2, 3].view(32, 2, 8)[5], whole[1, 2, 6].float(), whole[1, 2, 7].float()
    order = [0, 2, 1, 3, 4, 6, 5, 7]
    assert torch.equal(lane[0], one.view(32, 8)[5][order])
    assert torch.equal(lane[1], other.view(32, 8)[5][order])


def test_the_scale_is_two_powers_of_two():
    words = torch.tensor([bfloat16_factor(9), bfloat16_factor(-7)], dtype=torch.int64).to(torch.int32)
    assert words.view(torch.bfloat16).tolist() == [2.0**111, 2.0**111, 2.0**127, 2.0**127]

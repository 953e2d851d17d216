"""Packed kernels match plain torch, and each row is independent of the rest of the call."""

import math

import pytest
import torch
import torch.nn.functional as F

from engine.kernels.conv import Conv1d, bfloat16_runs
from engine.kernels.linear import Linear, _largest


def weights(*shape):
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator) / shape[-1] ** 0.5


@pytest.mark.parametrize("half", [True, False], ids=["half-precision weights", "full-precision weights"])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_exact_to_float32(half, bias):
    weight = weights(96, 200)
    weight = weight.bfloat16().float() if half else weight
    offset = weights(96) if bias else None
    x = weights(7, 200)
    exact = F.linear(x.double(), weight.double(), None if offset is None else offset.double())
    assert (Linear(weight, offset)(x) - exact).abs().max() < 2e-6


@pytest.mark.parametrize("half", [True, False])
def test_a_row_of_a_linear_is_independent_of_the_others(half):
    weight = weights(160, 64)
    linear = Linear(weight.bfloat16().float() if half else weight)
    x = weights(135, 64)
    together = linear(x)
    for rows in (1, 2, 3, 5, 7, 14, 16, 31, 121, 127):
        for start in range(0, 136 - rows, rows):
            assert torch.equal(linear(x[start : start + rows]), together[start : start + rows])


def test_a_linear_keeps_the_shape_of_its_input():
    linear = Linear(weights(48, 64))
    for shape in ((1,), (1, 1), (1, 2), (2, 1), (7,), (0,)):
        assert linear(torch.ones(*shape, 64)).shape == (*shape, 48)


def test_weights_too_large_for_half_precision_are_not_packed():
    weight = weights(8, 8)
    weight[0, 0] = 1e6
    x = weights(3, 8)
    assert torch.allclose(Linear(weight)(x), F.linear(x, weight))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_make_their_output_not_finite(value):
    weight = weights(8, 8)
    weight[2, 3] = value
    assert not math.isfinite(_largest(weight))
    finite = Linear(weight)(weights(3, 8)).isfinite()
    assert finite.sum(0).tolist() == [3, 3, 0, 3, 3, 3, 3, 3]


CONVOLUTIONS = [
    pytest.param((48, 32, 3), 1, 1, id="k3"),
    pytest.param((32, 32, 7), 9, 1, id="dilated"),
    pytest.param((64, 1, 7), 1, 64, id="depthwise"),
    pytest.param((128, 48, 1), 1, 1, id="pointwise"),
    pytest.param((1, 4, 7), 1, 1, id="to one channel"),
]


@pytest.mark.parametrize(("shape", "dilation", "groups"), CONVOLUTIONS)
def test_convolution_matches_plain_torch(shape, dilation, groups):
    weight, bias = weights(*shape), weights(shape[0])
    conv = Conv1d(weight, bias, columns=32, dilation=dilation, groups=groups)
    x = weights(2, 60, shape[1] * groups)
    columns = x.double().transpose(1, 2)
    exact = F.conv1d(columns, weight.double(), bias.double(), dilation=dilation, groups=groups).transpose(1, 2)
    assert (conv(x) - exact).abs().max() < 2e-5
    assert conv(x).shape == (2, 60 - conv.history, shape[0])


DTYPES = [
    torch.float32,
    pytest.param(
        torch.bfloat16, marks=pytest.mark.skipif(not bfloat16_runs(), reason="oneDNN has no bfloat16 on this CPU")
    ),
]


@pytest.mark.skipif(not bfloat16_runs(), reason="oneDNN has no bfloat16 on this CPU")
@pytest.mark.parametrize(("shape", "dilation", "groups"), CONVOLUTIONS)
def test_a_bfloat16_convolution_rounds_only_its_operands_and_its_result(shape, dilation, groups):
    weight, bias, x = weights(*shape), weights(shape[0]), weights(2, 100, shape[1] * groups)
    conv = Conv1d(weight, bias, columns=32, dilation=dilation, groups=groups, dtype=torch.bfloat16)
    columns, rounded = x.bfloat16().double().transpose(1, 2), weight.bfloat16().double()
    exact = F.conv1d(columns, rounded, bias.double(), dilation=dilation, groups=groups).transpose(1, 2)
    y = conv(x)
    assert y.dtype is torch.float32
    assert torch.allclose(y.double(), exact, rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dilation", "groups"), CONVOLUTIONS)
def test_a_column_of_a_convolution_is_independent_of_the_width(shape, dilation, groups, dtype):
    conv = Conv1d(weights(*shape), weights(shape[0]), columns=32, dilation=dilation, groups=groups, dtype=dtype)
    x = weights(3, 100 + conv.history, shape[1] * groups)
    whole = conv(x)
    for width in (1, 2, 4, 15, 16, 40):
        for start in range(0, 100 - width, 17):
            piece = x[:1, start : start + width + conv.history]
            assert torch.equal(conv(piece)[0], whole[0, start : start + width]), width

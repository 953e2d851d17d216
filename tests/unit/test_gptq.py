"""4-bit weights that are rounded for the inputs that a matrix gets."""

import pytest
import torch

from engine.checkpoint.layout import model_shapes
from engine.checkpoint.packing import packed_format
from engine.errors import CheckpointError
from engine.kernels.gptq import quantize_for_inputs
from engine.kernels.quantization import quantize_groups
from engine.models import qwen3
from engine.talker.native.input_moments import measure_input_moments


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def moments_of(inputs):
    return inputs.T @ inputs


def product_error(codes, weight, inputs):
    exact = inputs @ weight.T
    return ((inputs @ codes.dequantize().T - exact).norm() / exact.norm()).item()


def test_products_of_correlated_inputs_are_more_accurate():
    weight, inputs = normal(64, 256), normal(512, 16, seed=1) @ normal(16, 256, seed=2) + 0.3 * normal(512, 256, seed=3)
    plain = product_error(quantize_groups(weight), weight, inputs)
    fitted = product_error(quantize_for_inputs(weight, moments_of(inputs)), weight, inputs)
    assert fitted < 0.5 * plain


def test_products_of_new_inputs_of_the_same_kind_are_more_accurate():
    mixing = normal(16, 256, seed=2)
    weight, seen, new = normal(64, 256), normal(512, 16, seed=1) @ mixing, normal(512, 16, seed=4) @ mixing
    plain = product_error(quantize_groups(weight), weight, new)
    assert product_error(quantize_for_inputs(weight, moments_of(seen)), weight, new) < 0.5 * plain


def test_products_of_uncorrelated_inputs_are_as_accurate_as_without_measured_inputs():
    weight, inputs = normal(64, 256), normal(4096, 256, seed=1)
    plain = product_error(quantize_groups(weight), weight, inputs)
    assert product_error(quantize_for_inputs(weight, moments_of(inputs)), weight, inputs) < 1.01 * plain


def test_a_matrix_that_got_no_inputs_is_quantized_without_them():
    weight = normal(32, 64)
    fitted, plain = quantize_for_inputs(weight, torch.zeros(64, 64)), quantize_groups(weight)
    assert all(torch.equal(one, other) for one, other in zip(fitted, plain, strict=True))


@pytest.mark.parametrize("name", ["0b6-custom_voice", "1b7-base", "1b7-voice_design"])
def test_the_inputs_of_every_quantized_matrix_are_measured(name, opened):
    checkpoint = opened[name]
    moments = measure_input_moments(checkpoint)
    shapes = model_shapes(checkpoint.model)
    quantized = {each for each, shape in shapes.items() if packed_format(each, shape, "int4") == "int4"}
    assert quantized <= moments.keys()
    for each in quantized:
        matrix = moments[each]
        assert matrix.shape == (shapes[each][1],) * 2
        assert torch.allclose(matrix, matrix.T, rtol=1e-3, atol=1e-3 * matrix.abs().max().item())
        assert matrix.diagonal().sum() > 0


def test_infinite_inputs_are_reported(opened, monkeypatch):
    call = qwen3.RMSNorm.__call__
    monkeypatch.setattr(qwen3.RMSNorm, "__call__", lambda norm, x: call(norm, x) * float("inf"))
    with pytest.raises(CheckpointError, match=r"the inputs of talker\..*\.weight are infinite or NaN"):
        measure_input_moments(opened["0b6-custom_voice"])

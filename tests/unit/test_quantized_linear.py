"""Quantized products are close to the exact ones, and each row is independent of the rest of the call."""

import pytest
import torch

from engine.kernels import quantized_linear
from engine.kernels.linear import Linear
from engine.kernels.quantization import (
    GroupCodes,
    RowCodes,
    pack_nibbles,
    quantize_groups,
    quantize_rows,
    quantize_table,
    unpack_nibbles,
)
from engine.kernels.quantized_linear import int4_linear, int8_linear

MAKE = {"int8": int8_linear, "int4": int4_linear}


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def relative_error(approximate, exact):
    return ((approximate - exact).norm() / exact.norm()).item()


@pytest.fixture
def without_kernels(monkeypatch):
    """The operators of quantized products are missing, as on other CPUs and in later versions of torch."""
    monkeypatch.setattr(quantized_linear, "int8_runs", lambda: False)
    monkeypatch.setattr(quantized_linear, "int4_runs", lambda: False)


@pytest.mark.parametrize(("quantize", "error"), [(quantize_rows, 0.009), (quantize_groups, 0.075)])
def test_quantized_weights_have_the_documented_error(quantize, error):
    weight = normal(300, 1024)
    assert relative_error(quantize(weight).dequantize(), weight) < error


@pytest.mark.parametrize("quantize", [quantize_rows, quantize_groups])
@pytest.mark.parametrize("value", [0.0, 0.375, -2.0])
def test_equal_weights_are_quantized_without_error(quantize, value):
    weight = torch.full((4, 64), value)
    assert torch.allclose(quantize(weight).dequantize(), weight, rtol=1e-6)


def test_quantized_embeddings_have_the_error_of_eight_bits():
    table = normal(300, 256).bfloat16()
    codes = quantize_table(table)
    assert len(codes) == 300
    assert relative_error(codes.rows(torch.arange(300)), table.float()) < 0.007
    assert torch.equal(codes.rows(torch.tensor([7, 299, 7])), codes.rows(slice(None))[[7, 299, 7]])


def test_two_codes_of_four_bits_share_a_byte():
    codes = torch.arange(-8, 8, dtype=torch.int8).view(2, 8)
    packed = pack_nibbles(codes)
    assert (packed.dtype, packed.shape) == (torch.uint8, (2, 4))
    assert packed[0, 0] == 0x10
    assert torch.equal(unpack_nibbles(packed), codes)


@pytest.mark.parametrize(("quantize", "kind"), [(quantize_rows, RowCodes), (quantize_groups, GroupCodes)])
def test_the_codes_of_a_matrix_are_those_of_its_parts(quantize, kind):
    weight = normal(1000, 192)
    parts = [quantize(weight[start:stop]) for start, stop in ((0, 7), (7, 640), (640, 1000))]
    for whole, stacked in zip(quantize(weight), kind.cat(parts), strict=True):
        assert torch.equal(whole, stacked)


@pytest.mark.parametrize(("bits", "error"), [("int8", 0.011), ("int4", 0.08)])
@pytest.mark.parametrize("shape", [(96, 160), (1024, 352)])
def test_a_product_is_close_to_the_exact_one(bits, error, shape):
    weight, x = normal(*shape), normal(7, shape[1], seed=1)
    assert relative_error(MAKE[bits](weight)(x), x @ weight.T) < error


def test_an_activation_far_above_the_others_does_not_hide_them():
    weight, x = normal(64, 512), normal(1, 512, seed=1)
    x[0, 0] = 1000.0
    weight[:, 0] = 0.0
    exact = x.double() @ quantize_rows(weight).dequantize().double().T
    assert relative_error(int8_linear(weight)(x), exact) < 0.05


@pytest.mark.parametrize("bits", MAKE)
def test_rows_of_zeros_give_zeros(bits):
    x = torch.stack((torch.zeros(64), torch.ones(64)))
    y = MAKE[bits](normal(32, 64))(x)
    assert torch.equal(y[0], torch.zeros(32))
    assert y[1].abs().min() > 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bits", MAKE)
def test_a_row_is_independent_of_the_others(bits, threads):
    linear = MAKE[bits](normal(160, 96))
    x = normal(33, 96, seed=1) * torch.logspace(-3, 3, 33)[:, None]
    previous = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = linear(x)
        for rows in (1, 2, 3, 5, 16):
            for start in range(0, 33 - rows, rows):
                assert torch.equal(linear(x[start : start + rows]), together[start : start + rows])
    finally:
        torch.set_num_threads(previous)


@pytest.mark.parametrize("bits", MAKE)
def test_without_kernels_the_result_is_the_same_except_for_rounding(bits, without_kernels, request):
    weight, x = normal(48, 64), normal(5, 64, seed=1)
    fallback = MAKE[bits](weight)
    assert isinstance(fallback, Linear)
    request.getfixturevalue("monkeypatch").undo()
    assert relative_error(fallback(x), MAKE[bits](weight)(x)) < 0.01


@pytest.mark.parametrize("shape", [(32, 40), (40, 64)])
def test_matrices_of_other_shapes_stay_exact_in_four_bits(shape):
    weight, x = normal(*shape).bfloat16().float(), normal(3, shape[1], seed=1)
    assert torch.equal(int4_linear(weight)(x), Linear(weight)(x))


@pytest.mark.parametrize("outputs", [16, 64, 1008])
def test_four_bits_are_packed_in_blocks_as_at_once(outputs):
    codes = quantize_groups(normal(outputs, 96)).codes
    at_once = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.int().add(8), 1)
    assert torch.equal(quantized_linear._pack_int4(codes), at_once)


@pytest.mark.parametrize("runs", [quantized_linear.int8_runs, quantized_linear.int4_runs])
def test_an_operator_that_fails_is_reported_and_not_used(runs, monkeypatch, caplog):
    if not runs():
        pytest.skip("torch has no such operator for this CPU")

    def failing(codes):
        raise RuntimeError("this operator was removed")

    monkeypatch.setattr(quantized_linear, "Int8Linear", failing)
    monkeypatch.setattr(quantized_linear, "Int4Linear", failing)
    assert runs.__wrapped__() is False
    assert "this operator was removed" in caplog.text

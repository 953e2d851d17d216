"""Quantized weights are close to the exact ones, and packed codes are those that were packed."""

import pytest
import torch

from engine.kernels.quantization import (
    GroupCodes,
    RowCodes,
    pack_nibbles,
    quantize_groups,
    quantize_rows,
    quantize_table,
    unpack_nibbles,
)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def relative_error(approximate, exact):
    return ((approximate - exact).norm() / exact.norm()).item()


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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_has_no_finite_weights(value):
    weight = normal(8, 64)
    weight[3, 5] = value
    finite = quantize_rows(weight).dequantize().isfinite()
    assert finite.all(1).tolist() == [True, True, True, False, True, True, True, True]
    assert not finite[3].any()

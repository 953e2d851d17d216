"""Makes the talker's matrix products and text embedding in each weight format.

Quantizes tensors of an original checkpoint, one at a time, and reads the codes of a packed one
(``engine.checkpoint.packing``). Both give the same codes, so a packed checkpoint gives the same speech.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels.linear import Linear, LinearLayer
from engine.kernels.quantization import (
    GroupCodes,
    RowCodes,
    TableCodes,
    quantize_groups,
    quantize_rows,
    quantize_table,
    supports_int4,
    supports_table,
    unpack_nibbles,
)
from engine.kernels.quantized_linear import int4_product, int8_product
from engine.models.qwen3 import MakeLinear, exact_linear
from engine.models.talker import ExactTable, MakeTable, Table, exact_table
from engine.models.weights import Weights
from engine.protocol.request import WeightFormat


def int8_linear(weights: Weights, names: Sequence[str]) -> LinearLayer:
    """Return the product with the rows of several matrices, in 8 bits."""
    return int8_product(RowCodes.cat([_row_codes(weights, name) for name in names]))


def int4_linear(weights: Weights, names: Sequence[str]) -> LinearLayer:
    """Return the product with the rows of several matrices, in 4 bits.

    If 4 bits do not support the shape of one, the product has the values of the others' codes, without their speed.
    """
    parts = [_group_codes(weights, name) for name in names]
    codes = [part for part in parts if isinstance(part, GroupCodes)]
    if len(codes) == len(parts):
        return int4_product(GroupCodes.cat(codes))
    return Linear(torch.cat([part.dequantize() if isinstance(part, GroupCodes) else part for part in parts]))


def quantized_table(weights: Weights, name: str) -> Table:
    """Return the table of an embedding in 8 bits. Embeddings whose width 8 bits do not support stay exact."""
    if f"{name}.int8" in weights:
        return TableCodes(weights.stored(f"{name}.int8"), weights.stored(f"{name}.scales").float())
    table = weights.stored(f"{name}.weight")
    return quantize_table(table) if supports_table(table.shape) else ExactTable(table, weights.dtype)


def _row_codes(weights: Weights, name: str) -> RowCodes:
    if f"{name}.int8" in weights:
        return RowCodes(weights.stored(f"{name}.int8"), weights.stored(f"{name}.scales").float())
    return quantize_rows(weights[f"{name}.weight"])


def _group_codes(weights: Weights, name: str) -> GroupCodes | Tensor:
    """Return the codes of a matrix, or the matrix if its shape is not supported."""
    if f"{name}.int4" in weights:
        scales, offsets = (weights.stored(f"{name}.{part}").bfloat16() for part in ("scales", "offsets"))
        return GroupCodes(unpack_nibbles(weights.stored(f"{name}.int4")), scales, offsets)
    weight = weights[f"{name}.weight"]
    return quantize_groups(weight) if supports_int4(weight.shape) else weight


class LayerWeights(NamedTuple):
    """Makes the parts of the talker that have a weight format. Heads and projections are always exact.

    linear: the matrix products of the layers. table: the text embedding.
    """

    linear: MakeLinear
    table: MakeTable


LAYER_WEIGHTS: Mapping[WeightFormat, LayerWeights] = MappingProxyType(
    {
        "exact": LayerWeights(exact_linear, exact_table),
        "int8": LayerWeights(int8_linear, quantized_table),
        "int4": LayerWeights(int4_linear, quantized_table),
    }
)

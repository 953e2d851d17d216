"""The tensors of a packed checkpoint, which ``sonant pack`` writes: names and shapes.

The matrices of the decoder layers and the text embedding are quantized (``engine.kernels.quantization``). In place of
``NAME.weight`` they have ``NAME.int8`` or ``NAME.int4``, the codes, and ``NAME.scales``; in 4 bits also
``NAME.offsets``. All other tensors are those of the original checkpoint.

The layout does not depend on the CPU or on torch's version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from engine.kernels.quantization import GROUP, TABLE_GROUP, supports_int4, supports_table

QuantizedFormat = Literal["int8", "int4"]
VERSION: Literal[1] = 1
"""Version of the names and shapes, and of the meaning of the codes."""
CODE_DTYPES: Mapping[str, tuple[str, ...]] = MappingProxyType({"int8": ("I8",), "int4": ("U8",)})
"""The dtype of codes, by the last part of the tensor's name. Two codes of 4 bits share a byte."""

_MATRIX = re.compile(
    r"talker\.(?:code_predictor\.)?model\.layers\.\d+\."
    r"(?:self_attn\.[qkvo]_proj|mlp\.(?:gate|up|down)_proj)\.weight"
)
_TABLE = "talker.model.text_embedding.weight"


def packed_format(name: str, shape: tuple[int, ...], weights: QuantizedFormat) -> QuantizedFormat | None:
    """Return the format of a tensor in a checkpoint packed with ``weights``. None: as in the original checkpoint."""
    if name == _TABLE:
        return "int8" if supports_table(shape) else None
    if not _MATRIX.fullmatch(name) or (weights == "int4" and not supports_int4(shape)):
        return None
    return weights


def is_table(name: str) -> bool:
    """Return whether a tensor is the text embedding, which has a scale for each group of 64 in 8 bits."""
    return name == _TABLE


def packed_shapes(shapes: Mapping[str, tuple[int, ...]], weights: QuantizedFormat) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a checkpoint packed with ``weights``. shapes: of the original checkpoint."""
    packed: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        base = name.removesuffix("weight")
        match packed_format(name, shape, weights):
            case None:
                packed[name] = shape
            case "int8":
                packed[f"{base}int8"] = shape
                packed[f"{base}scales"] = (shape[0], shape[1] // TABLE_GROUP) if is_table(name) else shape[:1]
            case "int4":
                packed[f"{base}int4"] = (shape[0], shape[1] // 2)
                packed[f"{base}scales"] = packed[f"{base}offsets"] = (shape[0], shape[1] // GROUP)
    return packed

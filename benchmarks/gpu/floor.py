"""Lower bounds (floors) of the time of a frame: bytes to read from memory, and operations to compute (SPEC 10)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.checkpoint.architecture import TalkerArchitecture
from engine.checkpoint.layout import Shapes

BANDWIDTH = 4.8e12
"""Memory bandwidth of an H200 by its data sheet, in bytes per second."""
PRODUCTS = 0.99e15
"""Throughput of its tensor cores in bfloat16 without sparsity, in floating-point operations per second."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor of one step. bytes: read from memory. operations: floating-point operations of matrix products."""

    bytes: float
    operations: float

    def __add__(self, other: Floor) -> Floor:
        return Floor(self.bytes + other.bytes, self.operations + other.operations)

    def milliseconds(self, bandwidth: float = BANDWIDTH, products: float = PRODUCTS) -> float:
        """Return the longer of memory time and compute time, because they overlap at best."""
        return 1000 * max(self.bytes / bandwidth, self.operations / products)


def layers_floor(talker: TalkerArchitecture, shapes: Shapes, rows: int, positions: float, itemsize: int) -> Floor:
    """Return the floor of the talker's layers for ``rows`` utterances. positions: mean cached positions of each."""
    shape = talker.transformer
    weights = _size(shapes, "talker.model.layers.")
    cached = 2 * shape.layers * shape.kv_heads * shape.head_dim * positions
    attended = 2 * 2 * shape.layers * shape.heads * shape.head_dim * positions
    return Floor((weights + rows * cached) * itemsize, rows * (2 * weights + attended))


def first_code_floor(shapes: Shapes, rows: int, itemsize: int) -> Floor:
    """Return the floor of the codec head."""
    head = _size(shapes, "talker.codec_head.")
    return Floor(head * itemsize, rows * 2 * head)


def predictor_floor(talker: TalkerArchitecture, shapes: Shapes, rows: int, itemsize: int) -> Floor:
    """Return the floor of the code predictor: its layers once per codebook after the first, and each head once.

    The first of these passes reads two positions per row: the talker's state and the first code.
    """
    passes = talker.codebooks - 1
    layers = _size(shapes, "talker.code_predictor.model.layers.")
    heads = _size(shapes, "talker.code_predictor.lm_head.")
    projection = _size(shapes, "talker.code_predictor.small_to_mtp_projection.")
    read = passes * (layers + projection) + heads
    return Floor(read * itemsize, rows * 2 * (read + layers + projection))


def _size(shapes: Shapes, prefix: str) -> int:
    return sum(math.prod(shape) for name, shape in shapes.items() if name.startswith(prefix))

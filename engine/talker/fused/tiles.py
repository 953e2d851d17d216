"""Tile sizes of the matrix products that use Triton kernels; cuBLAS computes the other products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch


class Tile(NamedTuple):
    """One program's part of a product: ``rows`` rows of x by ``outputs`` rows of the matrix, ``columns`` per iteration.

    parts: how many programs split the columns (split-K). The launch that reads the result adds the partial sums.
    """

    rows: int
    outputs: int
    columns: int
    stages: int
    parts: int = 1


Tiles = Mapping[str, Mapping[int, Tile]]
"""Product name -> maximum row count, in ascending order -> tile. cuBLAS computes larger and unlisted products."""

FASTEST: Tiles = {
    "qkv": {32: Tile(32, 64, 128, 4, 2), 64: Tile(64, 64, 128, 4, 2)},
    "out": {32: Tile(32, 64, 128, 4, 8), 64: Tile(64, 64, 64, 4, 8), 128: Tile(64, 64, 128, 4, 4)},
    "gate_up": {32: Tile(32, 64, 128, 4), 64: Tile(64, 64, 128, 4), 128: Tile(64, 64, 128, 3)},
    "down": {32: Tile(32, 64, 128, 4, 8), 64: Tile(64, 64, 128, 4, 8), 128: Tile(64, 64, 128, 4, 4)},
    "head": {32: Tile(32, 64, 128, 4, 4), 64: Tile(64, 64, 64, 4, 4), 128: Tile(64, 64, 128, 4, 2)},
}
"""Fastest tiles for the published sizes in bfloat16 on an H200.

``gate_up`` has one part, because SwiGLU runs in the same launch.
"""
ALL_CUBLAS: Tiles = {}


def default_tiles(device: torch.device, dtype: torch.dtype) -> Tiles:
    """Return FASTEST for bfloat16 on compute capability 9.0, else ALL_CUBLAS.

    Other GPUs, and float32, may not have enough shared memory for these tiles.
    """
    tuned = device.type == "cuda" and dtype == torch.bfloat16 and torch.cuda.get_device_capability(device) == (9, 0)
    return FASTEST if tuned else ALL_CUBLAS


def tile_for(tiles: Tiles, name: str, rows: int, outputs: int, columns: int) -> Tile | None:
    """Return the tile for ``rows`` rows times a matrix [outputs, columns]; None if cuBLAS computes this product."""
    tile = next((each for max_rows, each in tiles.get(name, {}).items() if rows <= max_rows), None)
    if tile is None or outputs % tile.outputs or columns % (tile.parts * tile.columns):
        return None
    return tile


def partial_sum_rows(tiles: Tiles, name: str, rows: int) -> int:
    """Return how many rows the buffer of partial sums needs for products of up to ``rows`` rows, over all parts."""
    return max([rows, *(tile.parts * min(max_rows, rows) for max_rows, tile in tiles.get(name, {}).items())])

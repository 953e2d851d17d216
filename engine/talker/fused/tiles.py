"""Which products of the Triton form share out their columns, and how; cuBLAS multiplies the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch


class Tile(NamedTuple):
    """A program's share of a product: ``rows`` rows of frames by ``outputs`` of the matrix's, ``columns`` at a time.

    parts: of all columns, each a program's. Whatever launch reads the result adds them up.
    """

    rows: int
    outputs: int
    columns: int
    stages: int
    parts: int = 1


Tiles = Mapping[str, Mapping[int, Tile]]
"""Product -> the most rows, in ascending order -> tile. Beyond them cuBLAS multiplies, and for what is not named."""

FASTEST: Tiles = {
    "qkv": {32: Tile(32, 64, 128, 4, 2), 64: Tile(64, 64, 128, 4, 2)},
    "out": {32: Tile(32, 64, 128, 4, 8), 64: Tile(64, 64, 64, 4, 8), 128: Tile(64, 64, 128, 4, 4)},
    "gate_up": {32: Tile(32, 64, 128, 4), 64: Tile(64, 64, 128, 4), 128: Tile(64, 64, 128, 3)},
    "down": {32: Tile(32, 64, 128, 4, 8), 64: Tile(64, 64, 128, 4, 8), 128: Tile(64, 64, 128, 4, 4)},
    "head": {32: Tile(32, 64, 128, 4, 4), 64: Tile(64, 64, 64, 4, 4), 128: Tile(64, 64, 128, 4, 2)},
}
"""Of the published sizes in bfloat16, on an H200. ``gate_up`` has one part, as SwiGLU follows within the launch."""
ALL_CUBLAS: Tiles = {}


def usual_tiles(device: torch.device, dtype: torch.dtype) -> Tiles:
    """The fastest that are known. Other GPUs may not have the shared memory for them, nor is float32 so narrow."""
    known = device.type == "cuda" and dtype == torch.bfloat16 and torch.cuda.get_device_capability(device) == (9, 0)
    return FASTEST if known else ALL_CUBLAS


def tile_for(tiles: Tiles, name: str, rows: int, outputs: int, columns: int) -> Tile | None:
    """The tile of a product of ``rows`` rows with a matrix [outputs, columns]; None where cuBLAS multiplies."""
    tile = next((each for most, each in tiles.get(name, {}).items() if rows <= most), None)
    if tile is None or outputs % tile.outputs or columns % (tile.parts * tile.columns):
        return None
    return tile


def most_sums(tiles: Tiles, name: str, rows: int) -> int:
    """How many rows the sums of a product of up to ``rows`` rows are at most, all parts together."""
    return max([rows, *(tile.parts * min(most, rows) for most, tile in tiles.get(name, {}).items())])

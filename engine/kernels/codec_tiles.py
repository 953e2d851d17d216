"""Selects the tile size of matrix products. Measured on Hopper GPUs: docs/explanation/decisions/code2wav-gpu.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tile:
    """Rows, columns and depth of the block that one Triton program computes, and its warps and pipeline stages.

    splits: programs that share the depth of a block.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    splits: int = 1

    def programs(self, rows: int, columns: int) -> int:
        """Return the number of blocks of a product of this size."""
        return -(-rows // self.rows) * -(-columns // self.columns)

    def shared(self, itemsize: int) -> int:
        """Return the maximum bytes of shared memory that the pipeline stages take."""
        return self.stages * (self.rows + self.columns) * self.depth * itemsize


H200_SHARED_BYTES = 227 * 1024
"""Bytes of shared memory per block on the GPU on which the tiles were measured."""


_TILES = (
    (Tile(256, 128, 64, 8, 3), 96),
    (Tile(128, 64, 64, 4, 4), 160),
    (Tile(64, 64, 64, 4, 4), 64),
    (Tile(64, 32, 64, 4, 4), 90),
    (Tile(32, 32, 128, 4, 4), 96),
)
"""(tile, minimum programs), largest tile first. With fewer programs the tile does not fill the GPU."""
_SMALLEST = Tile(16, 32, 128, 4, 4)
_NARROW_AND_SHALLOW = Tile(128, 32, 32, 4, 5)
"""For products with many rows that are too narrow and too shallow to fill a larger tile."""
_SHALLOW = Tile(64, 64, 32, 4, 5)
"""For products with many rows and little depth, which are bound by memory."""
_DEEP = Tile(128, 128, 64, 4, 3)
"""For products with many rows and medium depth."""
_SPLIT = Tile(64, 64, 64, 4, 4)
"""For deep products with few rows. Rows that do not fill it take a tile with fewer."""
_MAX_SPLITS, _MAX_SPLIT_PROGRAMS = 8, 192
_MIN_SPLIT_DEPTH, _MIN_SPLIT_DEPTH_FEW_ROWS = 2048, 1024
_NORMED_TILES = (
    (Tile(32, 64, 64, 2, 4), 100),
    (Tile(32, 32, 128, 4, 4), 96),
)
"""(tile, minimum programs) for products with an RMSNorm.

Tiles have fewer than 64 rows, because Triton multiplies larger ones with wgmma, which reads shared memory
asynchronously. Triton 3.6 to 3.9 allocate one buffer too few for an operand that is also read into registers, here for
the sum of squares: the next copy overwrites rows that wgmma still reads.
"""
_FLOAT32 = (Tile(64, 32, 32, 4, 3), Tile(16, 32, 32, 4, 3))
_MANY_ROWS = 8192


def choose_tile(
    rows: int, columns: int, depth: int, itemsize: int, shared: int = H200_SHARED_BYTES, *, normed: bool = False
) -> Tile:
    """Return the tile for the product [rows, depth] x [depth, columns]. itemsize: bytes per element.

    shared: bytes of shared memory available per block. When no other tile fits, return the smallest one. normed: the
    product has an RMSNorm.
    """
    if itemsize == 4:
        return _FLOAT32[0] if rows > 256 else _FLOAT32[1]
    if normed:
        return _first_fitting(_NORMED_TILES, rows, columns, depth, itemsize, shared)
    split = _split(rows, columns, depth)
    if split is not None and split.shared(itemsize) <= shared:
        return split
    if rows >= _MANY_ROWS and 128 < depth <= columns <= 384 and _SHALLOW.shared(itemsize) <= shared:
        return _SHALLOW
    if (
        rows >= _MANY_ROWS
        and depth < 2048
        and columns > 384
        and columns % 128 == 0
        and _DEEP.shared(itemsize) <= shared
    ):
        return _DEEP
    if columns < 128 and depth <= 128 and rows >= _MANY_ROWS and _NARROW_AND_SHALLOW.shared(itemsize) <= shared:
        return _NARROW_AND_SHALLOW
    return _first_fitting(_TILES, rows, columns, depth, itemsize, shared)


def _first_fitting(
    tiles: Iterable[tuple[Tile, int]], rows: int, columns: int, depth: int, itemsize: int, shared: int
) -> Tile:
    """Return the first of ``tiles``, (tile, minimum programs), that fits the product, or the smallest tile."""
    for tile, min_programs in tiles:
        if tile.shared(itemsize) > shared:
            continue
        if rows >= tile.rows and tile.programs(rows, columns) >= min_programs and not _wastes(tile, columns, depth):
            return tile
    return _SMALLEST


def _split(rows: int, columns: int, depth: int) -> Tile | None:
    """Return the tile of a product whose depth several programs share, or None if the product gains nothing from it."""
    if depth < (_MIN_SPLIT_DEPTH_FEW_ROWS if rows <= 16 else _MIN_SPLIT_DEPTH):
        return None
    tile = replace(_SPLIT, rows=16 if rows <= 16 else 32 if rows <= 32 or rows % 64 else 64)
    splits = min(_MAX_SPLITS, _MAX_SPLIT_PROGRAMS // tile.programs(rows, columns))
    return replace(tile, splits=1 << splits.bit_length() - 1) if splits > 1 else None


def _wastes(tile: Tile, columns: int, depth: int) -> bool:
    """Return whether a wide tile would waste columns beyond the product's. Narrow, deep products still gain from it."""
    narrow_and_deep = columns < tile.columns and depth >= 512
    return tile.columns > 64 and columns % tile.columns != 0 and not narrow_and_deep

"""Which block of a product one program makes. Measured on an H200: docs/decisions.md, "Code2Wav on a GPU"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """Rows, columns and depth of a product's block, and how it is run."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def blocks(self, rows: int, columns: int) -> int:
        """Programs that a product of this size is split into."""
        return -(-rows // self.rows) * -(-columns // self.columns)

    def shared(self, itemsize: int) -> int:
        """Bytes of shared memory that its stages take at most."""
        return self.stages * (self.rows + self.columns) * self.depth * itemsize


AMPLE = 227 * 1024
"""Bytes of shared memory of a block on the GPU that the tiles were measured on."""


_LEAST_BLOCKS = (
    (Tile(256, 128, 64, 8, 3), 96),
    (Tile(128, 64, 64, 4, 4), 160),
    (Tile(64, 64, 64, 4, 4), 64),
    (Tile(64, 32, 64, 4, 4), 90),
    (Tile(32, 32, 128, 4, 4), 96),
)
"""The largest tile that leaves enough programs for the whole GPU."""
_SMALLEST = Tile(16, 32, 128, 4, 4)
_SHORT = Tile(128, 32, 32, 4, 5)
"""Of long products that are too narrow and not deep enough to fill a block."""
_FLOAT32 = (Tile(64, 32, 32, 4, 3), Tile(16, 32, 32, 4, 3))
_MANY_ROWS = 8192


def choose_tile(rows: int, columns: int, depth: int, itemsize: int, shared: int = AMPLE) -> Tile:
    """The block of [rows, depth] x [depth, columns] of numbers of ``itemsize`` bytes.

    shared: bytes of shared memory that a block may have. The smallest tiles are taken where none fits.
    """
    if itemsize == 4:
        return _FLOAT32[0] if rows > 256 else _FLOAT32[1]
    if columns < 128 and depth <= 128 and rows >= _MANY_ROWS and _SHORT.shared(itemsize) <= shared:
        return _SHORT
    for tile, least in _LEAST_BLOCKS:
        if tile.shared(itemsize) > shared:
            continue
        if rows >= tile.rows and tile.blocks(rows, columns) >= least and not _wastes(tile, columns, depth):
            return tile
    return _SMALLEST


def _wastes(tile: Tile, columns: int, depth: int) -> bool:
    """Whether a wide block's last columns would often be none of the product's. A narrow deep product is worth it."""
    narrow_and_deep = columns < tile.columns and depth >= 512
    return tile.columns > 64 and columns % tile.columns != 0 and not narrow_and_deep

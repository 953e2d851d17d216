"""Which products use tiles, and that the tiles fit the published sizes."""

import pytest
import torch

from engine.talker.fused.tiles import ALL_CUBLAS, FASTEST, Tile, default_tiles, partial_sum_rows, tile_for
from tests.support.code_predictors import PUBLISHED

MIXED = PUBLISHED.heads * PUBLISHED.head_dim
MATRICES = {
    "qkv": (MIXED + 2 * PUBLISHED.kv_heads * PUBLISHED.head_dim, PUBLISHED.hidden),
    "out": (PUBLISHED.hidden, MIXED),
    "gate_up": (2 * PUBLISHED.intermediate, PUBLISHED.hidden),
    "down": (PUBLISHED.hidden, PUBLISHED.intermediate),
    "head": (2048, PUBLISHED.hidden),
}
SHARED_MEMORY = 227 * 1024
"""Bytes per block on compute capability 9.0."""


@pytest.mark.parametrize("name", FASTEST)
def test_the_fastest_tiles_divide_the_published_sizes(name):
    sizes = FASTEST[name]
    assert list(sizes) == sorted(sizes)
    for max_rows, tile in sizes.items():
        assert tile_for(FASTEST, name, max_rows, *MATRICES[name]) is tile
        assert tile.stages * (tile.rows + tile.outputs) * tile.columns * 2 <= SHARED_MEMORY
    assert tile_for(FASTEST, name, max(sizes) + 1, *MATRICES[name]) is None
    assert name != "gate_up" or all(tile.parts == 1 for tile in sizes.values()), "SwiGLU follows within the launch"


def test_cublas_multiplies_sizes_without_a_tile():
    tiles = {"out": {8: Tile(16, 32, 16, 2, parts=2)}}
    assert tile_for(tiles, "out", 8, 64, 64) == tiles["out"][8]
    assert tile_for(tiles, "out", 8, 48, 64) is None
    assert tile_for(tiles, "out", 8, 64, 48) is None
    assert tile_for(tiles, "down", 8, 64, 64) is None


def test_the_workspace_holds_all_partial_sums():
    assert partial_sum_rows(FASTEST, "out", 512) == 512
    assert partial_sum_rows(FASTEST, "out", 256) == 512, "64 rows in eight parts"
    assert partial_sum_rows(FASTEST, "out", 4) == 32
    assert partial_sum_rows(ALL_CUBLAS, "out", 4) == 4


def test_a_cpu_uses_no_tiles():
    assert default_tiles(torch.device("cpu"), torch.bfloat16) is ALL_CUBLAS

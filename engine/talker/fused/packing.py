"""The matrices in the order in which the persistent kernel's warps read them."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.talker.fused.sizes import Sizes
from engine.talker.fused.weights import PredictorWeights


def pack(weights: PredictorWeights, sizes: Sizes) -> Tensor:
    """All matrices as streams [blocks, warps, units, 256]: each warp's share in the order in which it is used."""
    entrance, qkv, out, gate_up, down, head = sizes.slices
    parts = []
    if weights.project is not None:
        parts.append(_share(weights.project, sizes, entrance))
    for layer in range(weights.shape.layers):
        parts.append(_share(weights.qkv[layer], sizes, qkv))
        parts.append(_share(weights.out[layer], sizes, out))
        parts.append(_share(_paired(weights.gate_up[layer], sizes.blocks), sizes, gate_up))
        parts.append(_share(weights.down[layer], sizes, down))
    parts += [_share(matrix, sizes, head) for matrix in weights.heads]
    return torch.cat(parts, 2)


def _paired(gate_up: Tensor, blocks: int) -> Tensor:
    """Rows so that each block's are its gates and then their ups."""
    gate, up = gate_up.unflatten(0, (2, blocks, -1))
    return torch.cat((gate, up), 1).flatten(0, 1)


def _share(matrix: Tensor, sizes: Sizes, slices: int) -> Tensor:
    """[out, in] -> [blocks, warps, units, 256], a unit being 8 rows of 32 columns."""
    groups = sizes.warps // slices
    octs = matrix.shape[0] // 8 // sizes.blocks
    split = matrix.view(sizes.blocks, groups, octs // groups, 8, slices, matrix.shape[1] // 32 // slices, 4, 8)
    ordered = split.permute(0, 4, 1, 5, 2, 3, 6, 7)
    return ordered.reshape(sizes.blocks, sizes.warps, -1, 256)

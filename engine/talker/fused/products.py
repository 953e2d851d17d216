"""The products of the Triton form: by cuBLAS, or by launches that share out their columns."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from engine.kernels.triton_parts import swiglu_rows
from engine.talker.fused.launches.products import gated_product, part_product
from engine.talker.fused.tiles import Tiles, most_sums, tile_for

_COLUMNS = 1024
_WARPS = 4


class Product:
    """x W^T in float32, of x [rows, in] and W [out, in] in the compute type. Its result stands until its next call."""

    def __init__(self, tiles: Tiles, name: str, rows: int, outputs: int, device: torch.device) -> None:
        self._tiles, self._name = tiles, name
        self._sums = torch.zeros(most_sums(tiles, name, rows), outputs, dtype=torch.float32, device=device)

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        """[parts, rows, out], which are to be added up."""
        (rows, columns), outputs = x.shape, len(weight)
        tile = tile_for(self._tiles, self._name, rows, outputs, columns)
        if tile is None:
            return multiply(x, weight, self._sums[:rows])[None]
        out = self._sums[: tile.parts * rows].unflatten(0, (tile.parts, rows))
        part_product[(outputs // tile.outputs, triton.cdiv(rows, tile.rows), tile.parts)](
            x, weight, out, rows, outputs, columns, columns // tile.parts,
            BN=tile.outputs, BM=tile.rows, BK=tile.columns, STAGES=tile.stages, num_warps=_WARPS,
        )  # fmt: skip
        return out


class GatedProduct:
    """silu(gate) * up in the compute type, of x W^T with W [2 inner, in]: gates, then ups."""

    def __init__(self, tiles: Tiles, rows: int, inner: int, device: torch.device, dtype: torch.dtype) -> None:
        self._tiles = tiles
        self._gate_up = torch.zeros(rows, 2 * inner, dtype=torch.float32, device=device)
        self._inner = torch.zeros(rows, inner, device=device, dtype=dtype)

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        """[rows, inner], which stands until the next call."""
        (rows, columns), inner = x.shape, len(weight) // 2
        out = self._inner[:rows]
        tile = tile_for(self._tiles, "gate_up", rows, 2 * inner, columns)
        if tile is None:
            block = min(_COLUMNS, triton.next_power_of_2(inner))
            gate_up = multiply(x, weight, self._gate_up[:rows])
            swiglu_rows[(rows, triton.cdiv(inner, block))](gate_up, out, WIDTH=inner, BLOCK=block)
            return out
        gated_product[(2 * inner // tile.outputs, triton.cdiv(rows, tile.rows))](
            x, weight, out, rows, inner, columns,
            BN=tile.outputs, BM=tile.rows, BK=tile.columns, STAGES=tile.stages, num_warps=_WARPS,
        )  # fmt: skip
        return out


def multiply(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """out = x W^T in float32, by cuBLAS."""
    if x.dtype == torch.float32:
        return torch.mm(x, weight.T, out=out)
    return torch.ops.aten.mm.dtype_out(x, weight.T, torch.float32, out=out)

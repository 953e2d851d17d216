"""Products of Code2Wav in CUDA, for large batches on Hopper GPUs (cuda/causal_product.cu)."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels.codec_ops import Product
from engine.kernels.nvrtc import CooperativeKernel, compile_cubin
from engine.kernels.tensor_maps import MAP_BYTES, tensor_map

_SOURCE = Path(__file__).parent / "cuda" / "causal_product.cu"
_KERNEL = "causal_product"
_THREADS = 384
_ROWS, _DEPTH = 128, 64
WIDTHS = (192, 96)
"""Columns of a tile, the preferred width first."""
_MIN_FILL = 0.6
"""Minimum part of the GPU that has tiles, on average. Below it, Triton's smaller tiles are faster."""


class _Params(ctypes.Structure):
    """The kernel's argument struct; must match ``Params`` in the CUDA source."""

    _fields_ = [
        ("x", ctypes.c_byte * MAP_BYTES),
        *((name, ctypes.c_void_p) for name in ("weights", "vectors", "residual", "raw", "act")),
        *((f"{name}_stream", ctypes.c_longlong) for name in ("residual", "raw", "act")),
        *((name, ctypes.c_int) for name in ("streams", "columns", "inputs", "stages", "dilation")),
        *((name, ctypes.c_int) for name in ("times", "time_blocks", "tiles")),
        ("padding", ctypes.c_byte * 32),  # to a multiple of the tensor map's alignment
    ]


def permutation(channels: int) -> Tensor:
    """Return the channel of each column of the kernels' products.

    A thread holds columns 2 part and 2 part + 1 of every 8. It gets 8 consecutive channels of every 32.
    """
    column = torch.arange(channels)
    group, tile, part, odd = column // 32, column % 32 // 8, column % 8 // 2, column % 2
    return group * 32 + part * 8 + tile * 2 + odd


def pack(matrix: Tensor, width: int) -> Tensor:
    """Return matrix [depth, columns] in the kernel's order: [columns / width, depth / 64, width, 64].

    A row of 64 elements is 128 bytes, with the swizzle of ``swizzled_descriptor`` in cuda/wgmma.h.
    """
    order = permutation(matrix.shape[1]).to(matrix.device)
    tiles = matrix[:, order].unflatten(1, (-1, width)).unflatten(0, (-1, _DEPTH)).permute(2, 0, 3, 1)
    chunk, row = torch.arange(8, device=matrix.device), torch.arange(width, device=matrix.device)
    swizzle = (chunk[None, :] ^ row[:, None] % 8)[:, :, None].expand(*tiles.shape[:2], width, 8, 8)
    return tiles.unflatten(3, (8, 8)).gather(3, swizzle).contiguous()


class _Tiles(NamedTuple):
    """The tiles of a product. times: time steps of a tile. time_blocks: tiles of a stream's time steps."""

    width: int
    times: int
    time_blocks: int
    total: int


class ProductKernels:
    """Launches products. device: must have compute capability 9.0. Raises KernelError."""

    def __init__(self, device: torch.device) -> None:
        self._blocks = torch.cuda.get_device_properties(device).multi_processor_count
        self._kernels = {
            width: CooperativeKernel(
                product_cubin(width), _KERNEL, blocks=self._blocks, threads=_THREADS, device=device
            )
            for width in WIDTHS
        }
        self._packed: dict[int, tuple[Product, Tensor, Tensor]] = {}

    def fits(self, x: Tensor, product: Product) -> bool:
        """Return whether the kernel supports the product, and the batch is large enough."""
        if x.dtype != torch.float16 or product.activation == "gelu":
            return False
        if product.scale is not None or product.norm_eps is not None:
            return False
        if product.inputs % _DEPTH or product.matrix.shape[1] % WIDTHS[-1]:
            return False
        tiles = _tiles(x, product)
        elements = x.shape[0] * (x.shape[1] - product.history) * product.matrix.shape[1]
        waves = -(-tiles.total // self._blocks)
        return elements >= _MIN_FILL * waves * self._blocks * _ROWS * tiles.width

    def __call__(
        self, x: Tensor, product: Product, residual: Tensor | None, raw: Tensor | None, act: Tensor | None
    ) -> None:
        """Launch: see ``Ops.product``."""
        tiles = _tiles(x, product)
        weights, vectors = self._weights(product, tiles.width)
        depth, columns = product.matrix.shape
        x_map = tensor_map(x, (_ROWS // tiles.times, tiles.times, _DEPTH))
        pointers = (0 if each is None else each.data_ptr() for each in (residual, raw, act))
        strides = (0 if each is None else each.stride(0) for each in (residual, raw, act))
        params = _Params(
            x_map, weights.data_ptr(), vectors.data_ptr(), *pointers, *strides, len(x), columns, product.inputs,
            depth // _DEPTH, product.dilation, tiles.times, tiles.time_blocks, tiles.total,
        )  # fmt: skip
        self._kernels[tiles.width](params)

    def _weights(self, product: Product, width: int) -> tuple[Tensor, Tensor]:
        key = product.matrix.data_ptr()
        if key not in self._packed:
            unused = product.bias
            vectors = [unused if each is None else each for each in (product.bias, product.frequency, product.gain)]
            self._packed[key] = product, pack(product.matrix, width), torch.stack(vectors)
        return self._packed[key][1:]


def _tiles(x: Tensor, product: Product) -> _Tiles:
    streams, length, columns = len(x), x.shape[1] - product.history, product.matrix.shape[1]
    width = next(each for each in WIDTHS if columns % each == 0)
    times = min(_ROWS, length & -length)
    time_blocks = length // times
    return _Tiles(width, times, time_blocks, time_blocks * -(-streams * times // _ROWS) * (columns // width))


def product_cubin(width: int) -> bytes:
    """Return the cubin for products of ``width`` columns, from the cache or compiled. Raises KernelError."""
    return compile_cubin(_SOURCE, ["-arch=sm_90a", "-std=c++17", f"-DCOLUMNS={width}"])

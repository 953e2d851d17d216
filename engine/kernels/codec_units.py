"""Residual units of Code2Wav as one CUDA launch each, for large batches on Hopper GPUs (cuda/residual_unit.cu)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from engine.kernels.codec_ops import ResidualUnit
from engine.kernels.codec_products import WIDTHS, ProductKernels, permutation, product_cubin
from engine.kernels.nvrtc import CooperativeKernel, compile_cubin

SOURCE = Path(__file__).parent / "cuda" / "residual_unit.cu"
_KERNEL = "residual_unit"
_CAPABILITY = (9, 0)
_TAPS, _MAX_DILATION, _ROWS = 7, 9, 64
_WARPGROUPS = {96: 3, 192: 2}
"""Channels of the units that the kernel supports -> warpgroups of a block that make tiles."""
_THREADS = 384
_MIN_TILES_PER_WARPGROUP = 2
"""With fewer tiles the two Triton launches are faster."""


class _Params(ctypes.Structure):
    """The kernel's argument struct; must match ``Params`` in the CUDA source."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("x", "residual", "raw", "act", "weights", "vectors")),
        *((f"{name}_stream", ctypes.c_longlong) for name in ("x", "residual", "raw", "act")),
        *((name, ctypes.c_int) for name in ("length", "dilation", "tiles_per_stream", "tiles")),
    ]


def pack(unit: ResidualUnit) -> Tensor:
    """Return both matrices, [taps * channels + channels, channels], in the kernel's order.

    8 consecutive rows of a column are adjacent, then those of the next column.
    """
    order = permutation(unit.wide.inputs).to(unit.wide.matrix.device)
    matrix = torch.cat((unit.wide.matrix, unit.narrow.matrix[order]))[:, order]
    return matrix.unflatten(0, (-1, 8)).transpose(1, 2).contiguous()


class UnitKernels:
    """Launches residual units. device: must be ``supported``. Raises KernelError.

    products: launches the other products of large batches.
    """

    def __init__(self, device: torch.device) -> None:
        self._blocks = torch.cuda.get_device_properties(device).multi_processor_count
        self._kernels = {
            channels: CooperativeKernel(_cubin(channels), _KERNEL, blocks=self._blocks, threads=_THREADS, device=device)
            for channels in _WARPGROUPS
        }
        self._packed: dict[ResidualUnit, tuple[Tensor, Tensor]] = {}
        self.products = ProductKernels(device)

    @staticmethod
    def supported(device: torch.device) -> bool:
        """Return whether the kernel runs on this device."""
        return device.type == "cuda" and torch.cuda.get_device_capability(device) == _CAPABILITY

    def fits(self, x: Tensor, unit: ResidualUnit, streams: int, length: int) -> bool:
        """Return whether the kernel supports the unit, and the batch is large enough."""
        groups = _WARPGROUPS.get(unit.wide.inputs)
        if groups is None or x.dtype != torch.float16:
            return False
        if unit.wide.taps != _TAPS or unit.wide.dilation > _MAX_DILATION or unit.narrow.taps != 1:
            return False
        return streams * -(-length // _ROWS) >= _MIN_TILES_PER_WARPGROUP * groups * self._blocks

    def __call__(self, x: Tensor, unit: ResidualUnit, residual: Tensor, raw: Tensor | None, act: Tensor) -> None:
        """Launch: see ``Ops.residual_unit``."""
        streams, length, channels = residual.shape
        weights, vectors = self._weights(unit)
        tiles = -(-length // _ROWS)
        params = _Params(
            x.data_ptr(), residual.data_ptr(), 0 if raw is None else raw.data_ptr(), act.data_ptr(), weights.data_ptr(),
            vectors.data_ptr(), x.stride(0), residual.stride(0), 0 if raw is None else raw.stride(0), act.stride(0),
            length, unit.wide.dilation, tiles, streams * tiles,
        )  # fmt: skip
        self._kernels[channels](params)

    def _weights(self, unit: ResidualUnit) -> tuple[Tensor, Tensor]:
        if unit not in self._packed:
            vectors = [
                each for p in (unit.wide, unit.narrow) for each in (p.bias, p.frequency, p.gain) if each is not None
            ]
            self._packed[unit] = pack(unit), torch.stack(vectors)
        return self._packed[unit]


def compilations() -> list[Callable[[], bytes]]:
    """Return functions that compile the CUDA kernels of Code2Wav into the cache."""
    return [
        *(partial(_cubin, channels) for channels in _WARPGROUPS),
        *(partial(product_cubin, each) for each in WIDTHS),
    ]


def _cubin(channels: int) -> bytes:
    options = ["-arch=sm_90a", "-std=c++17", f"-DCHANNELS={channels}", f"-DGROUPS={_WARPGROUPS[channels]}"]
    return compile_cubin(SOURCE, options)

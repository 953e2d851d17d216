"""Encodes tensor maps, which tell a GPU's tensor copy engine (TMA) where the tiles of a tensor are."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kernels.nvrtc import KernelError

MAP_BYTES = 128
_ALIGNMENT = 64
_DTYPES = {torch.float16: 6, torch.bfloat16: 9}
_NO_INTERLEAVE, _SWIZZLE_128B, _L2_PROMOTION_128B, _FILL_WITH_ZEROS = 0, 3, 2, 0


def tensor_map(x: Tensor, box: Sequence[int]) -> ctypes.Array[ctypes.c_byte]:
    """Return the ``CUtensorMap`` for boxes of x: float16 or bfloat16, the last dimension contiguous.

    box: shape of a box. Its last dimension is 128 bytes, which are stored in shared memory with a 128-byte swizzle.
    Elements outside x are copied as zeros. Raises KernelError.
    """
    sizes, strides = list(reversed(x.shape)), [x.itemsize * each for each in reversed(x.stride())][1:]
    rank = len(sizes)
    buffer = (ctypes.c_byte * (MAP_BYTES + _ALIGNMENT))()
    address = -(-ctypes.addressof(buffer) // _ALIGNMENT) * _ALIGNMENT
    error = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), _DTYPES[x.dtype], rank, ctypes.c_void_p(x.data_ptr()),
        (ctypes.c_uint64 * rank)(*sizes),
        (ctypes.c_uint64 * (rank - 1))(*strides), (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*[1] * rank), _NO_INTERLEAVE, _SWIZZLE_128B, _L2_PROMOTION_128B, _FILL_WITH_ZEROS,
    )  # fmt: skip
    if error:
        raise KernelError(f"cuTensorMapEncodeTiled: error {error} for {tuple(x.shape)} in boxes of {tuple(box)}")
    encoded = (ctypes.c_byte * MAP_BYTES)()
    ctypes.memmove(encoded, address, MAP_BYTES)
    return encoded

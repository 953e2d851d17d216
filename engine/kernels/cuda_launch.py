"""Cooperative launches of compiled kernels on torch's current stream, by the driver that torch has loaded."""

from __future__ import annotations

import ctypes

import torch

from engine.kernels.nvrtc import KernelError

_LARGEST_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""


class CooperativeKernel:
    """A kernel all of whose blocks are on the GPU at once, so that they may wait for each other.

    ``name`` is its name in the cubin, whose constant int ``shared_bytes`` says how much shared memory a block has.
    Calling it launches it; a stream that is being captured captures it. Raises KernelError.
    """

    def __init__(self, cubin: bytes, name: str, *, blocks: int, threads: int, device: torch.device) -> None:
        torch.zeros(1, device=device)  # the driver loads modules into the context that torch makes on first use
        self._driver = _driver()
        self._module, self._function, self._cubin = ctypes.c_void_p(), ctypes.c_void_p(), cubin
        with torch.cuda.device(device):
            self._call("cuModuleLoadData", ctypes.byref(self._module), cubin)
            self._call("cuModuleGetFunction", ctypes.byref(self._function), self._module, name.encode())
            shared = self._constant("shared_bytes")
            self._call("cuFuncSetAttribute", self._function, _LARGEST_DYNAMIC_SHARED, shared)
        self._sizes = [ctypes.c_uint(each) for each in (blocks, 1, 1, threads, 1, 1, shared)]

    def __call__(self, params: ctypes.Structure) -> None:
        """Launch with ``params``, the kernel's only parameter. What it points to must outlive the launch."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(params))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._call("cuLaunchCooperativeKernel", self._function, *self._sizes, stream, arguments)

    def _constant(self, name: str) -> int:
        address, size, value = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_int()
        found = ctypes.byref(address), ctypes.byref(size)
        self._call("cuModuleGetGlobal_v2", *found, self._module, name.encode())
        self._call("cuMemcpyDtoH_v2", ctypes.byref(value), address, ctypes.c_size_t(ctypes.sizeof(value)))
        return value.value

    def _call(self, function: str, *arguments: object) -> None:
        error = getattr(self._driver, function)(*arguments)
        if error:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(error, ctypes.byref(text))
            raise KernelError(f"{function}: {(text.value or b'').decode()} ({error})")


def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise KernelError(f"the CUDA driver cannot be loaded: {error}") from error

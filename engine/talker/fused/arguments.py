"""Fills the argument structs of the CUDA kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Launch = Callable[[Any], None]
"""Launches a kernel with its argument struct."""


def fill(arguments: ctypes.Structure, tensors: Mapping[str, Tensor | None]) -> None:
    """Set the field of each name to the tensor's address, or to null. Raises ValueError if one is not contiguous."""
    for name, tensor in tensors.items():
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous, got strides {tensor.stride()} for {tuple(tensor.shape)}")
        setattr(arguments, name, 0 if tensor is None else tensor.data_ptr())

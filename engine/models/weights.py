"""Checkpoint tensors on their way into a model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class Weights:
    """Tensors by name, each converted when it is asked for: a model never exists twice in memory."""

    def __init__(
        self, tensors: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype, prefix: str = ""
    ) -> None:
        self._tensors, self._prefix = tensors, prefix
        self.device, self.dtype = device, dtype

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name].to(self.device, self.dtype)

    def stored(self, name: str) -> Tensor:
        """A tensor in the type it has in the file, for large tables of which few rows are read."""
        return self._tensors[self._prefix + name].to(self.device)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def under(self, prefix: str) -> Weights:
        """The tensors whose names begin with ``prefix``, by the rest of their names."""
        return Weights(self._tensors, self.device, self.dtype, self._prefix + prefix)

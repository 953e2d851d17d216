"""Converts checkpoint tensors to a model's device and dtype."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from engine.checkpoint.tensors import TensorSource


class WeightReader(Protocol):
    """Tensors by name."""

    def __contains__(self, name: str, /) -> bool:
        """Return whether the tensor exists."""

    def __getitem__(self, name: str, /) -> Tensor:
        """Return a tensor."""


def optional(weights: WeightReader, name: str) -> Tensor | None:
    """Return a tensor, or None if it does not exist."""
    if name not in weights:
        return None
    return weights[name]


class Weights:
    """Tensors by name, each converted to ``device`` and ``dtype`` on access.

    release: remove each tensor from ``tensors`` on access, so that each can be read only once. Then the stored and the
    converted model are never in memory together.
    """

    def __init__(
        self,
        tensors: TensorSource,
        device: torch.device,
        dtype: torch.dtype,
        prefix: str = "",
        *,
        release: bool = False,
    ) -> None:
        self._tensors, self._prefix, self._release = tensors, prefix, release
        self.device, self.dtype = device, dtype

    def __getitem__(self, name: str) -> Tensor:
        return self._get(name).to(self.device, self.dtype)

    def stored(self, name: str) -> Tensor:
        """Return a tensor in the dtype of the file: codes, or a large table of which only a few rows are read."""
        return self._get(name).to(self.device)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def under(self, prefix: str) -> Weights:
        """Return the tensors whose names begin with ``prefix``, by the rest of their names."""
        return Weights(self._tensors, self.device, self.dtype, self._prefix + prefix, release=self._release)

    def _get(self, name: str) -> Tensor:
        full = self._prefix + name
        return self._tensors.pop(full) if self._release else self._tensors[full]

"""What a causal network remembers of a stream between chunks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StateShape:
    """One remembered tensor of one stream; all zero when the stream begins."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32


class StreamState:
    """The remembered tensors of a batch of streams, taken and replaced in the order the layers run.

    state: one tensor [streams, *shape] per StateShape.
    """

    def __init__(self, state: list[Tensor]) -> None:
        self._state = iter(state)
        self.next: list[Tensor] = []

    def extend(self, x: Tensor, dim: int = -1) -> Tensor:
        """x preceded by what the layer remembers along ``dim``; the end of both is remembered for the next chunk."""
        remembered = next(self._state)
        joined = torch.cat((remembered, x), dim)
        width = remembered.shape[dim]
        self.next.append(joined.narrow(dim, joined.shape[dim] - width, width))
        return joined

    def advance(self, count: int) -> Tensor:
        """The positions [streams] the batch has reached, moved on by ``count`` for the next chunk."""
        positions = next(self._state)
        self.next.append(positions + count)
        return positions

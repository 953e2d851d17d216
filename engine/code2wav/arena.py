"""The decoder state of many streams, a row each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.models.stream_state import StateShape


class Arena:
    """Rows of stream state: [rows, *shape] for every remembered tensor (SPEC 9.2)."""

    def __init__(self, states: Sequence[StateShape], rows: int, device: torch.device) -> None:
        self._device = device
        self._tensors = [torch.zeros((rows, *state.shape), dtype=state.dtype, device=device) for state in states]
        self._free = list(range(rows))

    @property
    def free_rows(self) -> int:
        """How many more streams can begin."""
        return len(self._free)

    def acquire(self) -> int:
        """A row for a stream that begins: all zero."""
        row = self._free.pop()
        for tensor in self._tensors:
            tensor[row] = 0
        return row

    def release(self, row: int) -> None:
        """The stream of ``row`` is over."""
        self._free.append(row)

    def gather(self, rows: Sequence[int]) -> list[Tensor]:
        """The state of ``rows``: one tensor [len(rows), *shape] each. A single row's is not a copy."""
        if len(rows) == 1:
            return [tensor[rows[0]].unsqueeze(0) for tensor in self._tensors]
        index = torch.tensor(rows, device=self._device)
        return [tensor.index_select(0, index) for tensor in self._tensors]

    def scatter(self, rows: Sequence[int], state: Sequence[Tensor]) -> None:
        """Replace the state of ``rows``."""
        if len(rows) == 1:
            for tensor, new in zip(self._tensors, state, strict=True):
                tensor[rows[0]] = new[0]
            return
        index = torch.tensor(rows, device=self._device)
        for tensor, new in zip(self._tensors, state, strict=True):
            tensor.index_copy_(0, index, new)

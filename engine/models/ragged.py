"""Where the rows of a batch end: all together, or each at a column of its own, beyond which nothing of it is.

What a layer asks of the columns around a row's end is answered as if the row were alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Padding = Literal["constant", "replicate", "reflect"]
"""What stands beyond an end: zeros, the last column, or the columns before it, backwards."""


class RowLengths(Protocol):
    """Of a batch [rows, channels, columns]; at another rate it has other ends."""

    def at(self, rate: Callable[[Tensor], Tensor]) -> RowLengths:
        """The ends of what has ``rate(n)`` columns where these rows have n."""

    def padded(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        """x with ``left`` columns more before each row's first and ``right`` after its last, [.., columns + both]."""

    def filled(self, x: Tensor, value: float) -> Tensor:
        """x with ``value`` after each row's last column."""

    def mean(self, x: Tensor) -> Tensor:
        """Of each row's own columns: [rows, channels, 1]."""

    def shares(self, x: Tensor) -> Tensor:
        """What each column is of its row, [.., columns]: one divided by their number, and nothing after the last."""


class FullLengths:
    """The ``RowLengths`` of rows that are full."""

    def at(self, rate: Callable[[Tensor], Tensor]) -> FullLengths:
        """See RowEnds."""
        return self

    def padded(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        """See RowEnds."""
        return F.pad(x, (left, right), mode=padding)

    def filled(self, x: Tensor, value: float) -> Tensor:
        """See RowEnds."""
        return x

    def mean(self, x: Tensor) -> Tensor:
        """See RowEnds."""
        return x.mean(-1, keepdim=True)

    def shares(self, x: Tensor) -> Tensor:
        """See RowEnds."""
        return torch.full_like(x, 1 / x.shape[-1])


class RaggedLengths:
    """The ``RowLengths`` of rows with lengths of their own: int64 [rows], on the device.

    All that it asks for can be captured in a CUDA graph, which then holds for any lengths. What ``padded`` is given may
    have anything beyond a row's end, what the others are given only numbers.
    """

    def __init__(self, lengths: Tensor) -> None:
        self._lengths = lengths[:, None, None]
        self._sources: dict[tuple[int, int, int, Padding], Tensor] = {}

    def at(self, rate: Callable[[Tensor], Tensor]) -> RaggedLengths:
        """See RowEnds."""
        return RaggedLengths(rate(self._lengths[:, 0, 0]))

    def padded(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        """See RowEnds."""
        if padding == "constant":
            own = self._lengths + left
            x = F.pad(x, (left, right))
            return x.masked_fill_(self._columns(x) >= own, 0)
        source = self._source(x, left, right, padding)
        return x.gather(-1, source.expand(-1, x.shape[1], -1))

    def filled(self, x: Tensor, value: float) -> Tensor:
        """See RowEnds."""
        return x.masked_fill(self._columns(x) >= self._lengths, value)

    def mean(self, x: Tensor) -> Tensor:
        """See RowEnds."""
        return (x * self.shares(x)).sum(-1, keepdim=True)

    def shares(self, x: Tensor) -> Tensor:
        """See RowEnds."""
        return (self._columns(x) < self._lengths).float() / self._lengths

    def _source(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        """Which column each padded one is a copy of, [rows, 1, columns + both]: made once for each padding."""
        columns = x.shape[-1]
        key = columns, left, right, padding
        if key not in self._sources:
            wanted = torch.arange(-left, columns + right, device=x.device)
            last = self._lengths - 1
            if padding == "reflect":
                wanted = wanted.abs()
                wanted = torch.minimum(wanted, 2 * last - wanted)
            self._sources[key] = torch.minimum(wanted, last).clamp(min=0)
        return self._sources[key]

    @staticmethod
    def _columns(x: Tensor) -> Tensor:
        return torch.arange(x.shape[-1], device=x.device)

"""Lengths of the rows of a batch: all full, or a separate length for each row.

Padding and masking treat every row as if it were alone in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

Padding = Literal["constant", "replicate", "reflect"]
"""Values beyond an end: zeros, copies of the last column, or the columns before it in reverse order."""


class RowLengths(Protocol):
    """The row lengths of a batch [rows, channels, columns]. ``map`` converts them to another column rate."""

    def map(self, rate: Callable[[Tensor], Tensor]) -> RowLengths:
        """Return the lengths of rows that have ``rate(n)`` columns where these rows have n."""

    def pad(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        """Pad each row with ``left`` columns before its first and ``right`` after its last.

        Return [.., columns + left + right].
        """

    def fill_padding(self, x: Tensor, value: float) -> Tensor:
        """Return x with ``value`` in every column after a row's last one."""

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean over each row's own columns, [rows, channels, 1]."""

    def mean_weights(self, x: Tensor) -> Tensor:
        """Return the weights of a mean, [.., columns]: 1 / length for a row's own columns, 0 after its last one."""


class FullLengths(RowLengths):
    """A batch whose rows are all full."""

    @override
    def map(self, rate: Callable[[Tensor], Tensor]) -> FullLengths:
        return self

    @override
    def pad(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        return F.pad(x, (left, right), mode=padding)

    @override
    def fill_padding(self, x: Tensor, value: float) -> Tensor:
        return x

    @override
    def mean(self, x: Tensor) -> Tensor:
        return x.mean(-1, keepdim=True)

    @override
    def mean_weights(self, x: Tensor) -> Tensor:
        return torch.full_like(x, 1 / x.shape[-1])


class RaggedLengths(RowLengths):
    """Rows with separate lengths. lengths: int64 [rows], on the device.

    All operations can be captured in a CUDA graph, and the graph works for any lengths. The input of ``pad`` can
    have any values beyond a row's end, NaN included. The inputs of the other methods must be finite there.
    """

    def __init__(self, lengths: Tensor) -> None:
        self._lengths = lengths[:, None, None]
        self._sources: dict[tuple[int, int, int, Padding], Tensor] = {}

    @override
    def map(self, rate: Callable[[Tensor], Tensor]) -> RaggedLengths:
        return RaggedLengths(rate(self._lengths[:, 0, 0]))

    @override
    def pad(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        if padding == "constant":
            stop = self._lengths + left
            x = F.pad(x, (left, right))
            return x.masked_fill_(self._columns(x) >= stop, 0)
        source = self._source(x, left, right, padding)
        return x.gather(-1, source.expand(-1, x.shape[1], -1))

    @override
    def fill_padding(self, x: Tensor, value: float) -> Tensor:
        return x.masked_fill(self._columns(x) >= self._lengths, value)

    @override
    def mean(self, x: Tensor) -> Tensor:
        return (x * self.mean_weights(x)).sum(-1, keepdim=True)

    @override
    def mean_weights(self, x: Tensor) -> Tensor:
        return (self._columns(x) < self._lengths).float() / self._lengths

    def _source(self, x: Tensor, left: int, right: int, padding: Padding) -> Tensor:
        """Return the source column of each padded column, [rows, 1, columns + left + right]. Cached per padding."""
        columns = x.shape[-1]
        key = columns, left, right, padding
        if key not in self._sources:
            sources = torch.arange(-left, columns + right, device=x.device)
            last = self._lengths - 1
            if padding == "reflect":
                sources = sources.abs()
                sources = torch.minimum(sources, 2 * last - sources)
            self._sources[key] = torch.minimum(sources, last).clamp(min=0)
        return self._sources[key]

    @staticmethod
    def _columns(x: Tensor) -> Tensor:
        return torch.arange(x.shape[-1], device=x.device)

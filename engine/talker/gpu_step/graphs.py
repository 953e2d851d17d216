"""Captures the frame sampler as CUDA graphs, one for each of a few batch sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Tail = Callable[[Tensor, Tensor], Tensor]
"""(hidden states [n, hidden], slots [n]) -> codes [n, 16]."""
_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def batch_sizes(slots: int, *, one: bool = False) -> list[int]:
    """The sizes that batches of up to ``slots`` rows are filled up to; ``one``: always the largest."""
    return [slots] if one else [size for size in _SIZES if size < slots] + [slots]


class GraphedFrameSampler:
    """Runs a tail on the next larger of ``sizes``, in ascending order; surplus rows are the ``scratch`` slot's.

    On a GPU a size is one graph, of fixed inputs and outputs; elsewhere it is the same without a graph.
    """

    def __init__(
        self, tail: Tail, sizes: Sequence[int], *, scratch: int, hidden: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._sizes = sizes
        self._hidden = torch.zeros(sizes[-1], hidden, device=device, dtype=dtype)
        self._rows = torch.full((sizes[-1],), scratch, device=device)
        self._scratch = scratch
        self._runs: dict[int, Callable[[], Tensor]] = {}
        pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        for size in reversed(sizes):  # the largest first: the others fit into its memory
            run = _bound(tail, self._hidden[:size], self._rows[:size])
            self._runs[size] = run if pool is None else _captured(run, pool)

    def __call__(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """The codes [n, 16] of at most as many rows as the largest size. They stand only until the next call."""
        count = len(rows)
        size = self._sizes[bisect_left(self._sizes, count)]
        self._hidden[:count].copy_(hidden)
        self._rows[:count].copy_(rows)
        self._rows[count:size].fill_(self._scratch)
        return self._runs[size]()[:count]


def _bound(tail: Tail, hidden: Tensor, rows: Tensor) -> Callable[[], Tensor]:
    return lambda: tail(hidden, rows)


def _captured(run: Callable[[], Tensor], pool: Any) -> Callable[[], Tensor]:
    """``run`` as a graph. It is run twice before, for what is made on first use."""
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        run()
        run()
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        codes = run()

    def replay() -> Tensor:
        graph.replay()
        return codes

    return replay

"""Captures the frame sampler as CUDA graphs, one per batch size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

SampleFrames = Callable[[Tensor, Tensor], Tensor]
"""(hidden states [n, hidden], slot ids [n]) -> codes [n, 16]."""
_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def batch_sizes(slots: int, *, single: bool = False) -> list[int]:
    """Return the sizes to which batches of up to ``slots`` rows are padded. single: always pad to ``slots``."""
    return [slots] if single else [size for size in _SIZES if size < slots] + [slots]


def padded_size(sizes: Sequence[int], count: int) -> int:
    """Return the smallest of ``sizes`` (in ascending order) that is at least ``count``."""
    return sizes[bisect_left(sizes, count)]


class GraphedFrameSampler:
    """Runs a frame sampler on batches that are padded to the next of ``sizes`` (in ascending order).

    Padding rows have the slot id ``padding_row``, which changes no utterance. On a GPU each size is one CUDA graph with
    fixed input and output buffers; on other devices the sampler runs without a graph.
    """

    def __init__(
        self,
        sample: SampleFrames,
        sizes: Sequence[int],
        *,
        padding_row: int,
        hidden: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._sizes = sizes
        self._hidden = torch.zeros(sizes[-1], hidden, device=device, dtype=dtype)
        self._slot_ids = torch.full((sizes[-1],), padding_row, device=device)
        self._runs: dict[int, Callable[[], Tensor]] = {}
        pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        for size in reversed(sizes):  # largest first: the smaller graphs reuse its memory
            run = partial(sample, self._hidden[:size], self._slot_ids[:size])
            self._runs[size] = run if pool is None else captured(run, pool)

    def padded_size(self, count: int) -> int:
        """Return the batch size that runs for ``count`` rows, at most the largest size."""
        return padded_size(self._sizes, count)

    def __call__(self, hidden: Tensor, rows: Tensor, slot_ids: Tensor) -> Tensor:
        """Sample from rows ``rows``, int64 [n], of ``hidden`` [m, hidden]; return codes [n, 16].

        n must be one of the sizes: fill up with row 0 and ``padding_row``. The next call overwrites the codes.
        """
        size = len(rows)
        torch.index_select(hidden, 0, rows, out=self._hidden[:size])
        self._slot_ids[:size].copy_(slot_ids)
        return self._runs[size]()


@cache
def _warm_up_stream() -> torch.cuda.Stream:
    """Return one stream for all warm-up runs: torch keeps a workspace of cuBLAS for every stream."""
    return torch.cuda.Stream()


def captured(run: Callable[[], Tensor], pool: Any) -> Callable[[], Tensor]:
    """Capture ``run`` as a CUDA graph, after two warm-up runs that trigger lazy initialization."""
    stream = _warm_up_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        output = run()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay

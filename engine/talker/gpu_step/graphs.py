"""Runs parts of a step as CUDA graphs: one upload and one launch instead of many operations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.talker.gpu_step.uploader import Uploader

_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_FEW_SIZES = (1, 4, 16, 64, 256)


def batch_sizes(slots: int, *, single: bool = False) -> list[int]:
    """Return the sizes to which batches of up to ``slots`` rows are padded. single: always pad to ``slots``."""
    return [slots] if single else [size for size in _SIZES if size < slots] + [slots]


def few_sizes(slots: int) -> list[int]:
    """Return few sizes up to ``slots``, for work that is usually for few slots and that padding hardly lengthens."""
    return [size for size in _FEW_SIZES if size < slots] + [slots]


class PaddedGraphs:
    """Runs a function of an int64 block [columns, n], which comes from the host and is padded to one of a few sizes.

    On a GPU each size is one CUDA graph, which reads a block of its own; on other devices the function is called.
    """

    def __init__(
        self, run: Callable[[Tensor], Tensor], sizes: Sequence[int], padding: Sequence[int], upload: Uploader
    ) -> None:
        """sizes: in ascending order. padding: each column's value in padding rows, which must not affect other rows."""
        self._sizes, self._upload = sizes, upload
        self._run = run  # the graphs use its tensors
        self._padding = np.array(padding, np.int64)[:, None]
        self._runs: dict[int, tuple[Tensor, Callable[[], Tensor]]] = {}
        pool = torch.cuda.graph_pool_handle() if upload.device.type == "cuda" else None
        for size in reversed(sizes):  # largest first: the smaller graphs reuse its memory
            block = torch.from_numpy(self._padding).repeat(1, size).to(upload.device)
            call = partial(run, block)
            self._runs[size] = block.view(-1), call if pool is None else captured(call, pool)

    @property
    def max_rows(self) -> int:
        """The largest size."""
        return self._sizes[-1]

    def __call__(self, columns: Sequence[NDArray[np.int64]] | NDArray[np.int64]) -> Tensor:
        """Run with columns [n], at most ``max_rows``. Return the padded output, which the next call overwrites."""
        count = len(columns[0])
        size = self._sizes[bisect_left(self._sizes, count)]
        block, run = self._runs[size]
        host = np.empty((len(columns), size), np.int64)
        host[:, :count] = columns
        host[:, count:] = self._padding
        self._upload.fill(block, host)
        return run()


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

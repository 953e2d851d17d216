"""CUDA graphs for training passes, whose thousands of kernels take longer to launch than to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import torch

Result = TypeVar("Result")
Pool: TypeAlias = "torch.cuda._POOL_HANDLE"
"""A memory pool that graphs share."""
_WARM_UPS = 3


def graph_memory_pool(device: torch.device) -> Pool | None:
    """Return a memory pool for several graphs; None on a CPU, which has no graphs."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


class GraphedCallable(Generic[Result]):
    """Calls ``work``. On a GPU it is captured once and then replayed.

    ``work`` must read and write the same tensors in every call; its Python code runs only at capture. The next call
    overwrites its result. It must start by dropping old gradients, so that the capture allocates them. Graphs that
    share a ``pool`` (see ``graph_memory_pool``) share their memory, so a call of one also overwrites the results and
    gradients of the others.
    """

    def __init__(self, work: Callable[[], Result], device: torch.device, pool: Pool | None = None) -> None:
        self._work, self._device, self._pool = work, device, pool
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result | None = None

    def __call__(self) -> Result:
        """Run ``work`` and return its result."""
        if self._device.type != "cuda":
            return self._work()
        if self._graph is None:
            self._capture()
        assert self._graph is not None and self._result is not None
        self._graph.replay()
        return self._result

    def _capture(self) -> None:
        side_stream = torch.cuda.Stream(self._device)
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(_WARM_UPS):
                self._work()
        torch.cuda.current_stream().wait_stream(side_stream)
        self._graph = torch.cuda.CUDAGraph()
        # Other threads, such as the watchdog of NCCL, may call CUDA meanwhile.
        with torch.cuda.graph(self._graph, pool=self._pool, capture_error_mode="thread_local"):
            self._result = self._work()

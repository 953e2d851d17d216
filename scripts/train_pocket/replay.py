"""A training pass recorded once as a CUDA graph: launching its thousands of kernels costs more than running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import torch

Result = TypeVar("Result")
Pool: TypeAlias = "torch.cuda._POOL_HANDLE"
"""Memory that recordings share."""
_WARM_UPS = 3


def memory_pool(device: torch.device) -> Pool | None:
    """What several recordings can share; None where nothing is recorded."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


class Replayed(Generic[Result]):
    """Calls ``work``, on a GPU by replaying it.

    work reads and writes the same tensors at every call, and whatever of Python it does counts only once. What it
    returns is overwritten by the next call. Gradients that it makes must be new when it is recorded: work begins by
    dropping the old ones. Recordings that share a ``pool`` (of ``memory_pool``) share their memory: each one's result
    and gradients are overwritten by any other's call too.
    """

    def __init__(self, work: Callable[[], Result], device: torch.device, pool: Pool | None = None) -> None:
        self._work, self._device, self._pool = work, device, pool
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result | None = None

    def __call__(self) -> Result:
        """The work's result."""
        if self._device.type != "cuda":
            return self._work()
        if self._graph is None:
            self._record()
        assert self._graph is not None and self._result is not None
        self._graph.replay()
        return self._result

    def _record(self) -> None:
        aside = torch.cuda.Stream(self._device)
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                self._work()
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=self._pool):
            self._result = self._work()

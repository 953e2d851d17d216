"""Device streams: a dedicated CUDA stream on a GPU, the calling thread on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

_FIRST, _USUAL = -1, 0
"""CUDA stream priorities: high and default."""


class Mark(Protocol):
    """A point in the work of a device stream. ``torch.cuda.Event`` implements it."""

    def query(self) -> bool:
        """Return whether all work before this point is done."""

    def synchronize(self) -> None:
        """Block until all work before this point is done."""


class DeviceStream(Protocol):
    """Runs work on ``device`` in the order of submission."""

    device: torch.device

    def inside(self) -> AbstractContextManager[object]:
        """Return a context manager that submits the torch calls within it to this stream."""

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """Return a zero-filled host tensor; on a GPU stream it is in pinned memory, for asynchronous copies."""

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return a function that repeats ``work`` as one launch. Call the function within ``inside``.

        A CUDA stream runs ``work`` here, to warm up, and then captures it.
        """

    def mark(self) -> Mark:
        """Return a mark after all work submitted so far."""


class _Graph:
    """A captured CUDA graph. It keeps ``work`` alive, because the tensors it reads must keep their addresses."""

    def __init__(self, graph: torch.cuda.CUDAGraph, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        self._graph.replay()


class CudaStream:
    """A ``DeviceStream`` on a GPU.

    Its graphs run one after another and share one memory pool. Capture the largest graph first.

    sleeping: use blocking-sync events, so that ``synchronize`` sleeps instead of spinning. A wake-up takes longer than
    the launches of a small batch. Spinning occupies a CPU core while a batch is in flight.
    urgent: use high priority, so that a chunk that is due does not wait behind a talker step.
    """

    def __init__(self, device: torch.device, *, sleeping: bool, urgent: bool) -> None:
        self.device, self._sleeping = device, sleeping
        self._stream = torch.cuda.Stream(device, priority=_FIRST if urgent else _USUAL)
        self._pool = torch.cuda.graph_pool_handle()

    def inside(self) -> AbstractContextManager[object]:
        """Return a context manager that makes this stream current."""
        return torch.cuda.stream(self._stream)

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """Return zeros in pinned memory."""
        return torch.zeros(size, dtype=dtype, pin_memory=True)

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """Run ``work`` once, then capture it as a CUDA graph. CUDA calls of other threads do not affect the capture."""
        work()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            work()
        return _Graph(graph, work)

    def mark(self) -> Mark:
        """Record a CUDA event."""
        event = torch.cuda.Event(blocking=self._sleeping)
        event.record(self._stream)
        return event


class _Passed:
    """The ``Mark`` of a ``HostStream``, whose work is always done."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class HostStream:
    """A ``DeviceStream`` on the CPU. All work runs synchronously in the calling thread."""

    device = torch.device("cpu")

    def inside(self) -> AbstractContextManager[object]:
        """Return a context manager that does nothing."""
        return nullcontext()

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """Return zeros in ordinary memory."""
        return torch.zeros(size, dtype=dtype)

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return ``work`` itself, without running it."""
        return work

    def mark(self) -> Mark:
        """Return a mark that is already done."""
        return _Passed()

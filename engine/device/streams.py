"""Device streams: a dedicated CUDA stream on a GPU, the calling thread on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor
from typing_extensions import override

_HIGH_PRIORITY, _DEFAULT_PRIORITY = -1, 0


class Event(Protocol):
    """A point in the work of a device stream. ``torch.cuda.Event`` implements it."""

    def query(self) -> bool:
        """Return whether all work before this point is done."""

    def synchronize(self) -> None:
        """Block until all work before this point is done."""


class DeviceStream(Protocol):
    """Runs work on ``device`` in the order of submission."""

    device: torch.device

    def context(self) -> AbstractContextManager[object]:
        """Return a context manager that submits the torch calls within it to this stream."""

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """Return a zero-filled host tensor; on a GPU stream it is in pinned memory, for asynchronous copies."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return a function that repeats ``work`` as one launch. Call the function within ``context``.

        A CUDA stream runs ``work`` here, to warm up, and then captures it.
        """

    def wait_for(self, event: Event) -> None:
        """Make work that is submitted from now on wait for ``event``, which may be of another stream.

        On a GPU this returns at once.
        """

    def record_event(self, event: Event | None = None) -> Event:
        """Return an event after all work submitted so far. event: one that has passed, which is used again."""


class _CapturedGraph:
    """A captured CUDA graph. It keeps ``work`` alive, because the tensors it reads must keep their addresses."""

    def __init__(self, graph: torch.cuda.CUDAGraph, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        self._graph.replay()


class CudaStream(DeviceStream):
    """A CUDA stream.

    Its graphs run one after another and share one memory pool. Capture the largest graph first.

    blocking: use blocking-sync events, so that ``synchronize`` sleeps instead of spinning. A wake-up takes longer than
    the launches of a small batch. Spinning occupies a CPU core while a batch is in flight.
    high_priority: for chunks that must not wait behind a talker step.
    """

    def __init__(self, device: torch.device, *, blocking: bool, high_priority: bool) -> None:
        self.device, self._blocking = device, blocking
        self._stream = torch.cuda.Stream(device, priority=_HIGH_PRIORITY if high_priority else _DEFAULT_PRIORITY)
        self._pool = torch.cuda.graph_pool_handle()

    @override
    def context(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(self._stream)

    @override
    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(size, dtype=dtype, pin_memory=True)

    @override
    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        work()
        graph = torch.cuda.CUDAGraph()
        # thread_local: CUDA calls of other threads do not affect the capture
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            work()
        return _CapturedGraph(graph, work)

    @override
    def wait_for(self, event: Event) -> None:
        assert isinstance(event, torch.cuda.Event)
        self._stream.wait_event(event)

    @override
    def record_event(self, event: Event | None = None) -> Event:
        recorded = event if isinstance(event, torch.cuda.Event) else torch.cuda.Event(blocking=self._blocking)
        recorded.record(self._stream)
        return recorded


class _CompletedEvent(Event):
    @override
    def query(self) -> bool:
        return True

    @override
    def synchronize(self) -> None:
        pass


class HostStream(DeviceStream):
    """The CPU: all work runs synchronously in the calling thread, and captured work is not captured."""

    device = torch.device("cpu")

    @override
    def context(self) -> AbstractContextManager[object]:
        return nullcontext()

    @override
    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(size, dtype=dtype)

    @override
    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        return work

    @override
    def wait_for(self, event: Event) -> None:
        event.synchronize()

    @override
    def record_event(self, event: Event | None = None) -> Event:
        return _CompletedEvent()

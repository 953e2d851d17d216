"""Where a part of the engine works: on a GPU a CUDA stream of its own, on a CPU the thread that asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

_FIRST, _USUAL = -1, 0
"""Priorities of streams, as CUDA counts them."""


class Mark(Protocol):
    """A place in the work."""

    def query(self) -> bool:
        """Whether all before it is done."""

    def synchronize(self) -> None:
        """Wait until it is."""


class DeviceStream(Protocol):
    """Work on ``device``, in the order it is given."""

    device: torch.device

    def inside(self) -> AbstractContextManager[object]:
        """What is asked of torch within is work of the lane."""

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """Zeros on the host that the device copies without its help."""

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """``work``, which is done once, as one launch. It is to be called within ``inside``."""

    def mark(self) -> Mark:
        """After all that was asked for so far."""


class _Graph:
    """A captured graph, and what it was captured from: tensors that it reads must stay where they are."""

    def __init__(self, graph: torch.cuda.CUDAGraph, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        self._graph.replay()


class CudaStream:
    """A ``DeviceStream`` on a GPU. Its graphs run one after another and share their memory: capture the largest first.

    sleeping: whether who waits for a mark sleeps. To be woken takes longer than a small batch's launches; not to
    sleep takes a core for as long as a batch is under way. urgent: whether its work goes before what others have asked
    for: a chunk that is due does not wait behind a talker's step.
    """

    def __init__(self, device: torch.device, *, sleeping: bool, urgent: bool) -> None:
        self.device, self._sleeping = device, sleeping
        self._stream = torch.cuda.Stream(device, priority=_FIRST if urgent else _USUAL)
        self._pool = torch.cuda.graph_pool_handle()

    def inside(self) -> AbstractContextManager[object]:
        """See Lane."""
        return torch.cuda.stream(self._stream)

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """See Lane."""
        return torch.zeros(size, dtype=dtype, pin_memory=True)

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """See Lane. What other threads do meanwhile is no part of it."""
        work()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            work()
        return _Graph(graph, work)

    def mark(self) -> Mark:
        """See Lane."""
        event = torch.cuda.Event(blocking=self._sleeping)
        event.record(self._stream)
        return event


class _Passed:
    """The ``Mark`` of work that is done when it is asked for."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class HostStream:
    """A ``DeviceStream`` without a GPU: everything is done at once."""

    device = torch.device("cpu")

    def inside(self) -> AbstractContextManager[object]:
        """See Lane."""
        return nullcontext()

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """See Lane."""
        return torch.zeros(size, dtype=dtype)

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """See Lane."""
        return work

    def mark(self) -> Mark:
        """See Lane."""
        return _Passed()

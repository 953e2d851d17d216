"""vLLM's scheduler, with requests that can stand still."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.request import Request


class PausableScheduler(AsyncScheduler):
    """Leaves running requests out of a step while they ``stand``: their listener or their text is behind.

    They keep their slots and their cache, and cannot be preempted meanwhile.
    """

    running: list[Request]
    standing: Callable[[], Collection[str]] | None = None
    """The ids of those that are to stand in the next step."""

    def schedule(self, *args: Any, **kwargs: Any) -> SchedulerOutput:
        """One step's requests."""
        keys = self.standing() if self.standing is not None else ()
        if not keys:
            return super().schedule(*args, **kwargs)
        standing = [request for request in self.running if request.request_id in keys]
        self.running = [request for request in self.running if request.request_id not in keys]
        try:
            return super().schedule(*args, **kwargs)
        finally:
            self.running = standing + self.running

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """A request that comes back computes everything anew.

        Cached blocks of frames are found by codebook 0 alone, so it could be given those of another request.
        """
        request.skip_reading_prefix_cache = True
        super()._preempt_request(request, *args, **kwargs)

"""vLLM's scheduler, extended with requests that can be paused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.request import Request


class PausableScheduler(AsyncScheduler):
    """Leaves paused requests out of a step. A request is paused while its client or its text is behind.

    A paused request keeps its slot and its cache blocks, and cannot be preempted.
    """

    running: list[Request]
    paused_keys: Callable[[], Collection[str]] | None = None
    """Returns the ids of the requests to pause in the next step."""

    def schedule(self, *args: Any, **kwargs: Any) -> SchedulerOutput:
        """Schedule one step without the paused requests."""
        keys = self.paused_keys() if self.paused_keys is not None else ()
        if not keys:
            return super().schedule(*args, **kwargs)
        paused = [request for request in self.running if request.request_id in keys]
        self.running = [request for request in self.running if request.request_id not in keys]
        try:
            return super().schedule(*args, **kwargs)
        finally:
            self.running = paused + self.running

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Preempt a request, and make it recompute everything when it resumes.

        vLLM keys cached blocks of frames by codebook 0 alone, so the request could get blocks of another request.
        """
        request.skip_reading_prefix_cache = True
        super()._preempt_request(request, *args, **kwargs)

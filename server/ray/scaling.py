"""Autoscaling policy: the number of replicas follows the requests that run and wait. Imports only the standard library.

The deployment names it as ``autoscaling_config.policy.policy_function: server.ray.scaling:SeatUtilization``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext


class SeatUtilization:
    """Keeps running and queued requests at the fraction ``target`` of the requests that can run at once.

    Ray then applies the delays, factors and bounds of ``autoscaling_config``.
    """

    def __init__(self, target: float = 0.75) -> None:
        if not 0 < target <= 1:
            raise ValueError(f"target must be above 0 and at most 1, got {target:g}")
        self._target = target

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        """Return the number of replicas that ``context`` needs, and no state of its own.

        Without statistics, as before the first replica is ready, the number stays as it is.
        """
        statistics = context.aggregated_metrics or {}
        seats = [each for each in statistics.get("seats", {}).values() if each > 0]
        if not seats:
            return context.target_num_replicas, {}
        requests = sum(statistics.get("requests", {}).values())
        return math.ceil(requests * len(seats) / (sum(seats) * self._target)), {}

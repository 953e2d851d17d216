"""The metrics of several processes as one: what a process tells another one, and their sum."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_MEANS = frozenset({"sonant_load_ratio"})
_LARGEST = frozenset({"sonant_info"})
_SMALLEST = frozenset({"process_start_time_seconds"})
"""Samples that are not summed over the processes. Neither are times of creation, of which the first counts."""
_CUMULATIVE = frozenset({"counter", "histogram", "summary"})


def cumulative(metrics: Iterable[Metric]) -> list[Metric]:
    """Return what stays of the metrics of a process that has ended, so that no counter of the server decreases."""
    return [metric for metric in metrics if metric.type in _CUMULATIVE]


def merged(processes: Iterable[Iterable[Metric]]) -> list[Metric]:
    """Return the metrics of all processes together."""
    metrics: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]] = {}
    for metric in chain.from_iterable(processes):
        metrics.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
        for sample in metric.samples:
            key = sample.name, tuple(sample.labels.items())
            values.setdefault(metric.name, {}).setdefault(key, []).append(sample.value)
    for name, metric in metrics.items():
        for (sample_name, labels), parts in values.get(name, {}).items():
            metric.add_sample(sample_name, dict(labels), _together(sample_name, parts))
    return list(metrics.values())


class MergedCollector(Collector):
    """Exports merged metrics."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._metrics


def _together(sample: str, parts: list[float]) -> float:
    if sample in _MEANS:
        return sum(parts) / len(parts)
    if sample in _LARGEST:
        return max(parts)
    return min(parts) if sample in _SMALLEST or sample.endswith("_created") else sum(parts)

"""The metrics of several processes as one: what a process tells another one, and their sum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Families = list[list[Any]]
"""Metric families as JSON data: name, description, type, and samples, each with its name, labels and value."""
_MEANS = frozenset({"sonant_load_ratio"})
_LARGEST = frozenset({"sonant_info"})
_SMALLEST = frozenset({"process_start_time_seconds"})
"""Samples that are not summed over the processes. Neither are times of creation, of which the first counts."""
_CUMULATIVE = frozenset({"counter", "histogram", "summary"})


def families_of(collector: Collector) -> Families:
    """Return the metrics of this process."""
    return [
        [
            each.name,
            each.documentation,
            each.type,
            [[sample.name, sample.labels, sample.value] for sample in each.samples],
        ]
        for each in collector.collect()
    ]


def cumulative(families: Families) -> Families:
    """Return what stays of the metrics of a process that has ended, so that no counter of the server decreases."""
    return [family for family in families if family[2] in _CUMULATIVE]


def merged(processes: Sequence[Families]) -> list[Metric]:
    """Return the metrics of all processes together."""
    metrics: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]] = {}
    for families in processes:
        for name, text, kind, samples in families:
            metrics.setdefault(name, Metric(name, text, kind))
            for sample, labels, value in samples:
                key = sample, tuple(labels.items())
                values.setdefault(name, {}).setdefault(key, []).append(value)
    for name, metric in metrics.items():
        for (sample, labels), parts in values.get(name, {}).items():
            metric.add_sample(sample, dict(labels), _together(sample, parts))
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

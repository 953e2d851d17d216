"""The metrics of several processes as one page."""

from __future__ import annotations

import pickle
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from server.telemetry.merged_metrics import MergedCollector, cumulative, merged


def process(requests: dict[str, int], running: float, load: float, times: list[float]) -> list[Metric]:
    """What one process tells another one."""
    registry = CollectorRegistry()
    counter = Counter("sonant_requests", "Ended.", ["outcome"], registry=registry)
    for outcome, count in requests.items():
        counter.labels(outcome).inc(count)
    Gauge("sonant_requests_running", "Running.", registry=registry).set(running)
    Gauge("sonant_load_ratio", "Load.", registry=registry).set(load)
    Gauge("sonant_info", "Version.", ["version"], registry=registry).labels("1").set(1)
    seconds = Histogram("sonant_request_seconds", "Seconds.", registry=registry, buckets=(1, 2))
    for time in times:
        seconds.observe(time)
    return cast(list[Metric], pickle.loads(pickle.dumps([*registry.collect()])))


def page_of(*processes: list[Metric]) -> dict[tuple[str, str], float]:
    """The samples of the page, by name and label values."""
    registry = CollectorRegistry()
    registry.register(MergedCollector(merged(processes)))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {(each.name, ",".join(each.labels.values())): each.value for family in families for each in family.samples}


def test_counts_are_summed_by_their_labels() -> None:
    page = page_of(process({"completed": 2}, 1, 0, []), process({"completed": 3, "failed": 1}, 4, 0, []))
    assert page["sonant_requests_total", "completed"] == 5
    assert page["sonant_requests_total", "failed"] == 1
    assert page["sonant_requests_running", ""] == 5


def test_histograms_are_summed_bucket_by_bucket() -> None:
    page = page_of(process({}, 0, 0, [0.5, 1.5]), process({}, 0, 0, [0.5, 9]))
    buckets = [page["sonant_request_seconds_bucket", bound] for bound in ("1.0", "2.0", "+Inf")]
    assert buckets == [2, 3, 4]
    assert page["sonant_request_seconds_sum", ""] == 11.5


def test_a_ratio_is_the_mean_and_a_version_stays_one() -> None:
    page = page_of(process({}, 0, 1.0, []), process({}, 0, 0.5, []))
    assert page["sonant_load_ratio", ""] == 0.75
    assert page["sonant_info", "1"] == 1


def test_of_a_process_that_has_ended_only_counters_stay() -> None:
    ended = cumulative(process({"completed": 2}, 7, 1.0, [0.5]))
    page = page_of(process({"completed": 1}, 1, 0.5, []), ended)
    assert page["sonant_requests_total", "completed"] == 3
    assert page["sonant_request_seconds_count", ""] == 1
    assert page["sonant_requests_running", ""] == 1
    assert page["sonant_load_ratio", ""] == 0.5

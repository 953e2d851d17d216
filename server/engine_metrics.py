"""The engine's figures as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

_LINKS = ("frames", "audio")
_CACHES = ("reference", "context")


def engine_metrics(figures: Mapping[str, int] | None) -> Iterator[Metric]:
    """``figures`` of EngineClient.stats; without them only that the engine is not there."""
    yield GaugeMetricFamily("sonant_engine_up", "Whether the whole pipeline answers.", 0 if figures is None else 1)
    if figures is None:
        return
    yield GaugeMetricFamily("sonant_talker_slots_used", "Utterances that the talker speaks.", figures["talker_slots"])
    yield GaugeMetricFamily(
        "sonant_talker_waiting", "Utterances that wait for a slot of the talker.", figures["talker_waiting"]
    )
    yield GaugeMetricFamily("sonant_code2wav_rows_used", "Utterances that Code2Wav decodes.", figures["code2wav_rows"])
    yield SummaryMetricFamily(
        "sonant_talker_batch_size",
        "Utterances in a step of the talker; its sum is the frames made.",
        figures["talker_steps"],
        figures["talker_step_rows"],
    )
    yield SummaryMetricFamily(
        "sonant_code2wav_batch_size",
        "Utterances in a batch of Code2Wav.",
        figures["code2wav_batches"],
        figures["code2wav_batch_rows"],
    )
    yield _ring_fill(figures)
    yield _cache_lookups(figures)


def _ring_fill(figures: Mapping[str, int]) -> Metric:
    fill = GaugeMetricFamily(
        "sonant_ring_fill_ratio", "How full the shared-memory ring between two stages is.", labels=["link"]
    )
    for link in _LINKS:
        fill.add_metric([link], figures[f"{link}_ring_used"] / max(1, figures[f"{link}_ring_size"]))
    return fill


def _cache_lookups(figures: Mapping[str, int]) -> Metric:
    lookups = CounterMetricFamily(
        "sonant_cache_lookups",
        "Recordings whose voice (reference), or whose decoder state (context), was at hand or had to be made.",
        labels=["cache", "result"],
    )
    for cache in _CACHES:
        lookups.add_metric([cache, "hit"], figures[f"{cache}_hits"])
        lookups.add_metric([cache, "miss"], figures[f"{cache}_misses"])
    return lookups

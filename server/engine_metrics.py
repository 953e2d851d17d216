"""The engine's figures as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

_LINKS = ("frames", "audio")
_CACHES = ("reference", "context")


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What is known of the engine.

    up: whether it can speak, as far as is known; restarts: how often its process was replaced, by reason; figures: of
    its stages, None while they cannot be had.
    """

    up: bool
    restarts: Mapping[str, int]
    figures: Mapping[str, int] | None


def engine_metrics(engine: EngineFigures) -> Iterator[Metric]:
    """The metrics of ``engine``; those of its stages are left out while there are no figures."""
    yield GaugeMetricFamily("sonant_engine_up", "Whether the engine answers and its models make audio.", int(engine.up))
    yield _restarts(engine.restarts)
    figures = engine.figures
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


def _restarts(counts: Mapping[str, int]) -> Metric:
    restarts = CounterMetricFamily(
        "sonant_engine_restarts",
        "Engine processes that were replaced because they ended (crashed), did not answer or load in time (stalled), "
        "or made no audio (failed).",
        labels=["reason"],
    )
    for reason, count in counts.items():
        restarts.add_metric([reason], count)
    return restarts


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

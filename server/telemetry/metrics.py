"""Prometheus metrics of requests and of the engine, served at ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from server.http.body_budget import BodyBudget
from server.live.sessions import Sessions
from server.served_model import EngineStatus
from server.synthesis.admission import Admission
from server.telemetry.merged_metrics import MergedCollector, merged
from server.telemetry.record import RequestRecord
from server.version import version

_REQUESTS = "sonant_engine_requests"
_STAGE_GAUGES = {
    _REQUESTS: ("Requests that the engine processes or queues.", "client_streams"),
    "sonant_talker_slots_used": ("Utterances in the talker's slots.", "talker_slots"),
    "sonant_talker_waiting": ("Utterances that wait for a slot of the talker.", "talker_waiting"),
    "sonant_code2wav_rows_used": ("Utterances that Code2Wav decodes.", "code2wav_rows"),
}
"""Name of a metric: its description, and its key in the engine's statistics."""
_STAGE_SUMMARIES = {
    "sonant_talker_batch_size": (
        "Utterances in a step of the talker; the sum is the number of generated frames.",
        "talker_steps",
        "talker_step_rows",
    ),
    "sonant_code2wav_batch_size": (
        "Utterances in a batch of Code2Wav.",
        "code2wav_batches",
        "code2wav_batch_rows",
    ),
}
"""Name of a metric: its description, and the keys of its count and its sum in the engine's statistics."""
_LINKS = ("frames", "audio")
_CACHES = ("reference", "context")


def engine_metrics(engines: Sequence[EngineStatus]) -> Iterator[Metric]:
    """Yield the metrics of the engines, without those of the stages while no engine has statistics."""
    labels = [*engines[0].labels] if engines else []
    up = GaugeMetricFamily(
        "sonant_engine_up",
        "1 if the engine responds and its models produce audio, or is unloaded until the next request; else 0.",
        labels=labels,
    )
    restarts = CounterMetricFamily(
        "sonant_engine_restarts",
        "Engine processes that were replaced because they exited (crashed), did not respond or load in time (stalled), "
        "or produced no audio (failed).",
        labels=[*labels, "reason"],
    )
    loaded = GaugeMetricFamily(
        "sonant_engine_loaded", "1 if the engine is loaded or being loaded, 0 after keep_alive.", labels=labels
    )
    for engine in engines:
        values = [*engine.labels.values()]
        loaded.add_metric(values, int(engine.loaded))
        up.add_metric(values, int(engine.up))
        for reason, count in engine.restarts.items():
            restarts.add_metric([*values, reason], count)
    yield up
    yield loaded
    yield restarts
    stages = [([*engine.labels.values()], engine.stats) for engine in engines if engine.stats is not None]
    if stages:
        yield from _stage_metrics(labels, stages)


def _stage_metrics(labels: list[str], stages: Sequence[tuple[list[str], Mapping[str, int]]]) -> Iterator[Metric]:
    """Yield the metrics of both stages of each engine. stages: label values and statistics of each engine."""
    for name, (text, key) in _STAGE_GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=labels)
        for values, stats in stages:
            gauge.add_metric(values, stats[key])
        yield gauge
    for name, (text, count, total) in _STAGE_SUMMARIES.items():
        summary = SummaryMetricFamily(name, text, labels=labels)
        for values, stats in stages:
            summary.add_metric(values, stats[count], stats[total])
        yield summary
    fill = GaugeMetricFamily(
        "sonant_ring_fill_ratio",
        "Used fraction of the shared-memory ring between two stages.",
        labels=[*labels, "link"],
    )
    lookups = CounterMetricFamily(
        "sonant_cache_lookups",
        "Cache lookups of a recording's voice (reference) or decoder state (context), by result (hit or miss).",
        labels=[*labels, "cache", "result"],
    )
    for values, stats in stages:
        for link in _LINKS:
            fill.add_metric([*values, link], stats[f"{link}_ring_used"] / max(1, stats[f"{link}_ring_size"]))
        for cache in _CACHES:
            lookups.add_metric([*values, cache, "hit"], stats[f"{cache}_hits"])
            lookups.add_metric([*values, cache, "miss"], stats[f"{cache}_misses"])
    yield fill
    yield lookups


_LATENCIES = (0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30, 60, 120)
_DURATIONS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)
_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 5)
_UNKNOWN = "unknown"


class Metrics:
    """The server's metrics, in their own Prometheus registry."""

    def __init__(self, admissions: Mapping[str, Admission], sessions: Sessions, bodies: BodyBudget) -> None:
        """admissions: of the models, by their names; ``use_models`` changes them."""
        self._admissions: dict[str, Admission] = {}
        self._registry = registry = CollectorRegistry()
        self._engines = _EngineCollector()
        registry.register(self._engines)
        ProcessCollector(registry=registry)
        Gauge("sonant_info", "The running version.", ["version"], registry=registry).labels(version()).set(1)
        self._running = Gauge("sonant_requests_running", "Running speech requests.", ["model"], registry=registry)
        self._waiting = Gauge("sonant_requests_waiting", "Queued speech requests.", ["model"], registry=registry)
        load = Gauge(
            "sonant_load_ratio",
            "Running and queued speech requests, divided by the slots for them; of the model with the highest ratio. "
            "Scale out above 1.",
            registry=registry,
        )
        load.set_function(lambda: max(each.load for each in self._admissions.values()))
        labels = ["model", "task"]
        self._requests = Counter("sonant_requests", "Ended speech requests.", ["outcome", *labels], registry=registry)
        self._moves = Counter(
            "sonant_request_moves",
            "Requests that were submitted again, because their engine was lost or failed before their audio was "
            "audible.",
            ["model"],
            registry=registry,
        )
        open_sessions = Gauge("sonant_live_sessions_open", "Open live sessions.", registry=registry)
        open_sessions.set_function(lambda: len(sessions))
        body_bytes = Gauge("sonant_body_bytes", "Bytes of request bodies in memory.", registry=registry)
        body_bytes.set_function(lambda: bodies.used)
        self._sessions = Counter("sonant_live_sessions", "Ended live sessions.", ["outcome"], registry=registry)
        self._seconds = self._histogram("sonant_request_seconds", "Duration of a request in seconds.", _DURATIONS)
        self._first_audio = self._histogram(
            "sonant_time_to_first_audio_seconds", "Seconds from a request to its first audio.", _LATENCIES
        )
        self._onset = self._histogram(
            "sonant_audible_onset_seconds",
            "Seconds from a request to the first audible sound, for a client that plays from the first byte.",
            _LATENCIES,
        )
        self._factor = self._histogram(
            "sonant_real_time_factor", "Seconds of waiting for the engine per second of audio.", _FACTORS
        )
        self._audio = Counter("sonant_audio_seconds", "Seconds of synthesized speech.", labels, registry=registry)
        self._characters = Counter("sonant_characters", "Characters of accepted text.", labels, registry=registry)
        self._retries = Counter(
            "sonant_piece_retries",
            "Faulty pieces of speech that were made again.",
            ["model", "fault"],
            registry=registry,
        )
        self._failures = Counter(
            "sonant_piece_failures",
            "Faulty pieces of speech that ended their request.",
            ["model", "fault"],
            registry=registry,
        )
        self._underruns = Counter(
            "sonant_underruns",
            "Buffer underruns of a client that plays from the first byte.",
            ["model"],
            registry=registry,
        )
        self._dry = Counter("sonant_underrun_seconds", "Seconds of these underruns.", ["model"], registry=registry)
        self.use_models(admissions)

    def use_models(self, admissions: Mapping[str, Admission]) -> None:
        """Report the queues of these models only. The counters of models that are served no more stay.

        admissions: of the models, by their names.
        """
        for model in self._admissions.keys() - admissions.keys():
            self._running.remove(model)
            self._waiting.remove(model)
        self._admissions = dict(admissions)
        for model, admission in admissions.items():
            self._running.labels(model).set_function(partial(getattr, admission, "running"))
            self._waiting.labels(model).set_function(partial(getattr, admission, "waiting"))
            for counter in (self._moves, self._underruns, self._dry):
                counter.labels(model)  # a counter that begins with 0, for rate() in Prometheus

    def ended(self, record: RequestRecord) -> None:
        """Count a finished speech request.

        Each utterance counts as one request. A batch request or a live session with several utterances is therefore
        counted by its utterances, not a second time by itself.
        """
        if record.is_session:
            self._sessions.labels(record.outcome).inc()
        elif not record.parts:
            self._count(record)

    def _count(self, record: RequestRecord) -> None:
        model, task = record.model or _UNKNOWN, record.task or _UNKNOWN
        self._requests.labels(record.outcome, model, task).inc()
        for fault, count in record.retries.items():
            self._retries.labels(model, fault).inc(count)
        if record.fault is not None:
            self._failures.labels(model, record.fault).inc()
        if record.moves:
            self._moves.labels(model).inc(record.moves)
        if record.task is None:
            return
        self._characters.labels(model, task).inc(record.characters or 0)
        self._seconds.labels(model, task).observe(record.seconds)
        self._audio.labels(model, task).inc(record.audio_seconds)
        if record.first_audio is not None and record.onset is not None:
            self._first_audio.labels(model, task).observe(record.first_audio)
            self._onset.labels(model, task).observe(record.onset)
        if record.real_time_factor is not None:
            self._factor.labels(model, task).observe(record.real_time_factor)
        if record.playback is not None:
            self._underruns.labels(model).inc(record.playback.underruns)
            self._dry.labels(model).inc(record.playback.dry_seconds)

    def page(
        self, accept: str, engines: Sequence[EngineStatus], others: Sequence[Sequence[Metric]] = ()
    ) -> tuple[bytes, str]:
        """Return the metrics page, in the format that the ``accept`` header selects, and its media type.

        others: the metrics of other processes, with which those of this one are summed.
        """
        self._engines.engines = engines
        encode, media_type = choose_encoder(accept)
        if not others:
            return encode(self._registry), media_type
        registry = CollectorRegistry()
        registry.register(MergedCollector(merged([self._registry.collect(), *others])))
        return encode(registry), media_type

    def of_process(self, engine_requests: Mapping[tuple[str, str], int]) -> list[Metric]:
        """Return the metrics of a process that does not run the engines, for the one that sums them.

        engine_requests: requests of this process that each engine processes or queues, by model and engine.
        """
        gauge = GaugeMetricFamily(_REQUESTS, _STAGE_GAUGES[_REQUESTS][0], labels=["model", "engine"])
        for labels, count in engine_requests.items():
            gauge.add_metric(labels, count)
        return [*self._registry.collect(), gauge]

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, ["model", "task"], registry=self._registry, buckets=buckets)


class _EngineCollector(Collector):
    """Exports the status of the engines that ``Metrics.page`` set last."""

    engines: Sequence[EngineStatus] = ()

    def collect(self) -> Iterator[Metric]:
        """Return the status of the engines as metrics."""
        return engine_metrics(self.engines)

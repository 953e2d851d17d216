"""``/metrics``: what the requests and the engine did, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from server.admission import Admission
from server.engine_metrics import EngineFigures, engine_metrics
from server.http.body_budget import BodyBudget
from server.live.sessions import Sessions
from server.request_record import RequestRecord
from server.version import version

_LATENCIES = (0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30, 60, 120)
_DURATIONS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)
_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 5)
_UNKNOWN = "unknown"


class Metrics:
    """Figures in a registry of this server's own."""

    def __init__(self, admission: Admission, sessions: Sessions, bodies: BodyBudget) -> None:
        self._registry = registry = CollectorRegistry()
        self._engine = _EngineCollector()
        registry.register(self._engine)
        ProcessCollector(registry=registry)
        Gauge("sonant_info", "The version that runs.", ["version"], registry=registry).labels(version()).set(1)
        running = Gauge("sonant_requests_running", "Speech requests whose turn has come.", registry=registry)
        running.set_function(lambda: admission.running)
        waiting = Gauge("sonant_requests_waiting", "Speech requests in line.", registry=registry)
        waiting.set_function(lambda: admission.waiting)
        self._requests = Counter(
            "sonant_requests", "Speech requests that are over.", ["outcome", "task"], registry=registry
        )
        open_sessions = Gauge("sonant_live_sessions_open", "Live sessions now.", registry=registry)
        open_sessions.set_function(lambda: len(sessions))
        body_bytes = Gauge("sonant_body_bytes", "Bytes of request bodies that are held now.", registry=registry)
        body_bytes.set_function(lambda: bodies.held)
        self._sessions = Counter("sonant_live_sessions", "Live sessions that are over.", ["outcome"], registry=registry)
        self._seconds = self._histogram("sonant_request_seconds", "From a request to its end.", _DURATIONS)
        self._first_audio = self._histogram(
            "sonant_time_to_first_audio_seconds", "Until the first bytes of audio could leave.", _LATENCIES
        )
        self._onset = self._histogram(
            "sonant_audible_onset_seconds", "Until somebody who plays from the first byte hears a sound.", _LATENCIES
        )
        self._factor = self._histogram(
            "sonant_real_time_factor", "Seconds spent waiting for the engine for a second of audio.", _FACTORS
        )
        self._audio = Counter("sonant_audio_seconds", "Seconds of speech made.", ["task"], registry=registry)
        self._characters = Counter("sonant_characters", "Characters of text accepted.", ["task"], registry=registry)
        self._underruns = Counter(
            "sonant_underruns", "Gaps that a listener who plays from the first byte would hear.", registry=registry
        )
        self._dry = Counter("sonant_underrun_seconds", "The length of those gaps.", registry=registry)

    def ended(self, record: RequestRecord) -> None:
        """A speech request is over. An utterance counts like a request, so what had several counts by them alone."""
        if record.is_session:
            self._sessions.labels(record.outcome).inc()
        elif not record.parts:
            self._count(record)

    def _count(self, record: RequestRecord) -> None:
        task = record.task or _UNKNOWN
        self._requests.labels(record.outcome, task).inc()
        if record.task is None:
            return
        self._characters.labels(task).inc(record.characters or 0)
        self._seconds.labels(task).observe(record.seconds)
        self._audio.labels(task).inc(record.audio_seconds)
        if record.first_audio is not None and record.onset is not None:
            self._first_audio.labels(task).observe(record.first_audio)
            self._onset.labels(task).observe(record.onset)
        if record.real_time_factor is not None:
            self._factor.labels(task).observe(record.real_time_factor)
        if record.playback is not None:
            self._underruns.inc(record.playback.underruns)
            self._dry.inc(record.playback.dry_seconds)

    def page(self, accept: str, engine: EngineFigures) -> tuple[bytes, str]:
        """The page and its media type."""
        self._engine.figures = engine
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, ["task"], registry=self._registry, buckets=buckets)


class _EngineCollector(Collector):
    """What is known of the engine."""

    figures = EngineFigures(up=False, restarts={}, figures=None)

    def collect(self) -> Iterator[Metric]:
        """The figures as metrics."""
        return engine_metrics(self.figures)

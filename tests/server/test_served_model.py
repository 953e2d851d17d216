"""Which model a request gets, and the metrics of several engines."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.errors import EngineUnavailable
from server.errors import ApiError
from server.live.sessions import Sessions
from server.served_model import EngineStatus, ServedModel
from server.services import Services
from server.synthesis.admission import Admission
from server.telemetry.metrics import Metrics

STATS = {
    "client_streams": 1,
    "talker_slots": 1,
    "talker_waiting": 2,
    "talker_steps": 3,
    "talker_step_rows": 4,
    "code2wav_rows": 5,
    "code2wav_batches": 6,
    "code2wav_batch_rows": 7,
    "frames_ring_used": 8,
    "frames_ring_size": 16,
    "audio_ring_used": 0,
    "audio_ring_size": 16,
    "reference_hits": 9,
    "reference_misses": 1,
    "context_hits": 0,
    "context_misses": 0,
}


class Engine:
    """An engine whose statistics take too long (``late``), or that is not ready."""

    def __init__(self, *, ready: bool = True, late: bool = False) -> None:
        self._ready, self._late = ready, late
        self.restarts = {"crashed": 1}
        self.last_stats = STATS
        self.loaded = True
        self.engines = {"0": self}

    async def stats(self, timeout: float) -> dict[str, int]:
        if not self._ready:
            raise EngineUnavailable("the engine is restarting")
        if self._late:
            raise TimeoutError
        return STATS


def model(name: str, *aliases: str, engine: Engine | None = None) -> ServedModel:
    references = SimpleNamespace(hits=100)
    return ServedModel(name, frozenset(aliases), engine or Engine(), None, references, None, None)


def services(*models: ServedModel) -> Services:
    return Services(None, models, *[None] * 13)


@pytest.mark.parametrize(
    ("alias", "name", "selects"),
    [
        ("tts-1*", "tts-1-hd", True),
        ("tts-1*", "my-tts-1", False),
        ("*", "anything/at all", True),
        ("voice[v2]", "voice[v2]", True),
        ("voice[v2]", "voicev", False),
        ("what?", "what?", True),
        ("what?", "whats", False),
    ],
)
def test_only_an_asterisk_of_an_alias_stands_for_other_characters(alias: str, name: str, selects: bool) -> None:
    assert model("pocket", alias).has_name(name) == selects


def test_a_request_gets_the_model_that_it_names_or_the_first() -> None:
    first, second = model("first", "tts-1"), model("second", "org/second")
    served = services(first, second)
    names = (None, "first", "tts-1", "second", "org/second")
    assert [served.model(name) for name in names] == [first, first, first, second, second]


def test_an_unknown_model_is_refused_with_the_names_of_all_models() -> None:
    with pytest.raises(ApiError) as refused:
        services(model("first"), model("second")).model("third")
    assert (refused.value.status, refused.value.param, refused.value.code) == (404, "model", "model_not_found")
    assert refused.value.message == (
        "model 'third' does not exist; this server serves 'first', 'second'. To let clients use this name, add it to "
        "the setting model_aliases, or to the aliases of an entry of models"
    )


@pytest.mark.parametrize(("engine", "up"), [(Engine(), True), (Engine(late=True), True), (Engine(ready=False), False)])
async def test_the_status_of_an_engine_never_fails(engine: Engine, up: bool) -> None:
    [status] = await model("first", engine=engine).statuses(0.1)
    assert (status.up, status.restarts, status.labels) == (up, {"crashed": 1}, {"model": "first", "engine": "0"})
    assert status.stats == {**STATS, "reference_hits": 109}


def test_metrics_of_several_engines_differ_by_their_labels() -> None:
    metrics = Metrics({"first": Admission(1, 1)}, Sessions(1, 1.0), SimpleNamespace(used=0))
    engines = [
        EngineStatus(True, {"crashed": 1}, STATS, {"model": "first"}),
        EngineStatus(False, {"crashed": 2}, None, {"model": "second"}),
    ]
    page, _ = metrics.page("text/plain", engines)
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }
    assert (found["sonant_engine_up", "first"], found["sonant_engine_up", "second"]) == (1.0, 0.0)
    assert found["sonant_engine_restarts_total", "crashed", "second"] == 2.0
    assert found["sonant_talker_batch_size_sum", "first"] == 4.0
    assert found["sonant_ring_fill_ratio", "first", "frames"] == 0.5
    assert found["sonant_cache_lookups_total", "first", "hit", "reference"] == 9.0
    assert ("sonant_talker_slots_used", "second") not in found

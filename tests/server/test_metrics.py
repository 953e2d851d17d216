"""Metrics in /metrics agree with what happened."""

from __future__ import annotations

import math

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from server.app import create_app
from server.settings import load_settings
from server.telemetry.record import Playback
from tests.server.recordings import data_url, tone
from tests.server.serving import Serving, endless, speech, streamed
from tests.server.test_admission import Clock

Metrics = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(server: Serving) -> Metrics:
    with server.client() as client:
        response = client.get("/metrics").raise_for_status()
    assert response.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(response.text)
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples
    }


def metric(found: Metrics, name: str, **labels: str) -> float:
    """The sum of the metric's values with these labels, over all values of other labels."""
    return sum(
        value
        for (each, own), value in found.items()
        if each == f"sonant_{name}" and labels.items() <= dict(own).items()
    )


class MetricIncrease:
    """The increase of metrics between construction and ``update``."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self._before = scrape(server)

    def update(self) -> None:
        self._now = scrape(self._server)

    def __call__(self, name: str, **labels: str) -> float:
        return metric(self._now, name, **labels) - metric(self._before, name, **labels)


def complete_request(server: Serving, name: str, body: dict) -> None:
    """Send a request, read the whole response, and wait until the server has finished the request."""
    with server.client() as client, streamed(client, body, **{"X-Request-Id": name}) as response:
        response.read()
    server.wait_for(rf"id={name} ")
    server.stats()


def test_an_utterance_is_counted_and_measured(serving: Serving) -> None:
    grown = MetricIncrease(serving)
    complete_request(serving, "measured", endless(max_new_tokens=26))
    grown.update()
    task = {"task": "CustomVoice"}
    assert grown("requests_total", outcome="completed", **task) == 1
    assert grown("audio_seconds_total", **task) == pytest.approx(2.0)
    assert grown("characters_total", **task) == len(endless()["input"])
    for name in ("request_seconds", "time_to_first_audio_seconds", "audible_onset_seconds", "real_time_factor"):
        assert grown(f"{name}_count", **task) == 1, name
        assert grown(f"{name}_sum", **task) > 0, name
    assert grown("audible_onset_seconds_sum", **task) >= grown("time_to_first_audio_seconds_sum", **task)
    assert grown("talker_batch_size_sum") >= 25
    assert grown("talker_batch_size_count") >= 25
    assert 1 <= grown("code2wav_batch_size_count") <= 25
    assert grown("code2wav_batch_size_sum") == grown("code2wav_batch_size_count")


def test_refusals_are_counted_by_outcome(serving: Serving) -> None:
    grown = MetricIncrease(serving)
    complete_request(serving, "no-language", speech(language="klingon"))
    complete_request(serving, "no-field", speech(color="blue"))
    with serving.send_speech(endless(stream=False), "left-early"):
        serving.until(lambda stats: stats["requests"])
    serving.wait_for("id=left-early status=499")
    grown.update()
    assert grown("requests_total", outcome="refused", task="unknown") == 1
    assert sum(grown("requests_total", outcome="refused", task=task) for task in ("unknown", "CustomVoice")) == 2
    assert grown("requests_total", outcome="client_left", task="CustomVoice") == 1
    serving.until_idle()


def test_a_repeated_reference_is_a_cache_hit(serving: Serving) -> None:
    reference = {"ref_audio": data_url(tone(2.3)), "ref_text": "la la la la la la la"}
    grown = MetricIncrease(serving)
    for name in ("cloned", "cloned-again"):
        complete_request(serving, name, speech(**reference))
    grown.update()
    assert grown("requests_total", outcome="completed", task="Base") == 2
    assert grown("cache_lookups_total", cache="context", result="miss") == 1
    assert grown("cache_lookups_total", cache="context", result="hit") == 1


def test_current_load_is_reported(serving: Serving) -> None:
    with serving.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        now = scrape(serving)
        assert metric(now, "requests_running") == 1
        assert metric(now, "requests_waiting") == 0
        assert metric(now, "talker_slots_used") == 1
        assert metric(now, "engine_up") == 1
        for link in ("frames", "audio"):
            assert 0 <= metric(now, "ring_fill_ratio", link=link) < 1
    serving.until_idle()
    assert metric(scrape(serving), "requests_running") == 0


def test_serves_openmetrics_on_request(client: httpx.Client) -> None:
    response = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    assert client.head("/metrics").status_code == 200


def test_two_apps_in_one_process_have_separate_metrics() -> None:
    settings = load_settings(flags={"engine": {"model": "org/model"}})
    assert create_app(settings) is not create_app(settings)


def test_audio_in_time_is_no_underrun() -> None:
    clock = Clock()
    playback = Playback(clock)
    for _ in range(5):
        playback.add_audio(0.5)
        clock.now += 0.5
    assert (playback.underruns, playback.dry_seconds) == (0, 0.0)


def test_a_late_chunk_is_an_underrun_for_its_delay() -> None:
    clock = Clock()
    playback = Playback(clock)
    playback.add_audio(0.25)
    clock.now += 0.5
    playback.add_audio(0.25)
    clock.now += 0.25
    playback.add_audio(1.0)
    assert (playback.underruns, playback.dry_seconds) == (1, 0.25)


def test_back_pressure_is_not_an_underrun() -> None:
    clock = Clock()
    playback = Playback(clock)
    for _ in range(3):
        playback.add_audio(0.5)
        clock.now += 10.0
        playback.add_backpressure(10.0)
    assert playback.underruns == 0
    assert math.isclose(playback.dry_seconds, 0.0)

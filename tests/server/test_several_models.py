"""One server with two checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from tests.server.live_client import receive_utterance, send_utterance, session
from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, Serving, engine_settings, speech
from tests.server.test_bad_input import check
from tests.server.test_metrics import metric, scrape
from tests.support.random_checkpoint import RandomCheckpoints

VOICES = "/v1/audio/voices"
SAMPLE = {"audio_sample": ("sample.wav", wav(tone(1.6)))}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    checkpoints = RandomCheckpoints(tmp_path_factory.mktemp("checkpoints"))
    folder = tmp_path_factory.mktemp("several")

    def model(name: str, checkpoint: str, **fields: Any) -> dict[str, Any]:
        engine = engine_settings(checkpoints[checkpoint], talker={"slots": 2})
        return {"name": name, "engine": engine, **fields}

    models = [
        model("speakers", "0b6-custom_voice", default_voice="serena"),
        model("clone", "0b6-base", aliases=["base", "tts-1-clone"], voice_aliases={"alloy": "bert"}),
    ]
    config = folder / "sonant.yaml"
    config.write_text(yaml.safe_dump({"models": models, "voices": {"folder": str(folder / "voices")}}))
    with Serving(config) as server:
        server.ready()
        server.until_ready()
        yield server


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[httpx.Client]:
    """A client of a server in which the voice "bert" is stored."""
    with serving.client() as client:
        client.post(VOICES, data={"name": "bert"}, files=SAMPLE).raise_for_status()
        yield client


def samples(client: httpx.Client, **fields: Any) -> NDArray[np.int16]:
    answer = client.post(SPEECH, json=speech(**fields))
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, np.int16)


def test_the_models_are_listed_and_selected_by_their_names(client: httpx.Client) -> None:
    assert [card["id"] for card in client.get("/v1/models").json()["data"]] == ["speakers", "clone"]
    for name, model in {"tts-1": "speakers", "tts-1-clone": "clone", "base": "clone", "clone": "clone"}.items():
        assert client.get(f"/v1/models/{name}").json()["id"] == model
    answer = client.post(SPEECH, json=speech(model="design"))
    check(answer, 404, "model", "model_not_found")
    assert "'speakers', 'clone'" in answer.json()["error"]["message"]
    ready = client.get("/ready").json()
    assert (ready["model"], ready["models"]) == ("speakers", {"speakers": "ready", "clone": "ready"})


def test_interleaved_requests_of_two_models_speak_as_they_do_alone(client: httpx.Client) -> None:
    requests = [{"model": model, "seed": seed} for seed in range(4) for model in ("speakers", "clone")]
    for each in requests:
        each["voice"] = "bert" if each["model"] == "clone" else "ryan"
    alone = [samples(client, **each) for each in requests]
    with ThreadPoolExecutor(len(requests)) as threads:
        together = list(threads.map(lambda each: samples(client, **each), requests))
    for one, other in zip(alone, together, strict=True):
        assert one.shape == other.shape
        assert np.abs(one.astype(int) - other).max() <= 4  # another batch may round a sample differently
    assert len({each.tobytes() for each in alone}) == len(requests)


def test_a_voice_says_which_models_can_speak_it(client: httpx.Client) -> None:
    *speakers, stored = client.get(VOICES).json()["data"]
    assert {tuple(card["models"]) for card in speakers} == {("speakers",)}
    assert (stored["id"], stored["model"], stored["models"], stored["compatible"]) == (
        "bert",
        "clone",
        ["clone"],
        False,
    )
    [card] = client.get(VOICES, params={"model": "base"}).json()["data"]
    assert (card["id"], card["compatible"]) == ("bert", True)
    assert np.array_equal(samples(client, model="clone", voice="alloy"), samples(client, model="clone", voice="bert"))
    check(client.post(SPEECH, json=speech(voice="bert")), 400, "voice", "unsupported_task")
    check(client.get(VOICES, params={"model": "design"}), 404, "model", "model_not_found")
    taken = client.post(VOICES, data={"name": "serena"}, files=SAMPLE)
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "voice_exists")
    assert client.post(f"{VOICES}/embedding", data={"model": "base"}, files=SAMPLE).json()["model"] == "clone"
    check(
        client.post(f"{VOICES}/embedding", data={"model": "speakers"}, files=SAMPLE),
        400,
        "audio_sample",
        "unsupported_task",
    )


def test_a_batch_may_use_several_models(client: httpx.Client) -> None:
    items = [speech(model="clone", voice="bert"), speech(), speech(model="design"), speech(model="tts-1")]
    results = client.post(f"{SPEECH}/batch", json={"items": items}).json()["results"]
    assert [each["status"] for each in results] == ["success", "success", "error", "success"]
    assert results[2]["error"]["code"] == "model_not_found"


def test_logs_outcomes_and_metrics_have_the_model_and_the_engine(serving: Serving, client: httpx.Client) -> None:
    before = metric(scrape(serving), "requests_total", model="clone", outcome="completed")
    client.post(SPEECH, json=speech(model="base", voice="bert"), headers={"X-Request-Id": "told"}).raise_for_status()
    assert "model=clone engine=0 " in serving.wait_for(r".*id=told .*").group()
    outcome = client.get(f"{SPEECH}/told").json()
    assert (outcome["model"], outcome["engine"]) == ("clone", "0")
    now = scrape(serving)
    assert metric(now, "requests_total", model="clone", outcome="completed") == before + 1
    assert metric(now, "engine_up", model="speakers") == 1
    assert metric(now, "engine_loaded", model="clone", engine="0") == 1
    assert metric(now, "talker_batch_size_count", model="clone", engine="0") > 0


def test_a_session_speaks_with_the_model_of_its_configuration(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "live", model="clone", voice="bert") as socket:
        send_utterance(socket, "Hello there.")
        audio, _ = receive_utterance(socket)
    assert audio
    assert client.get(f"{SPEECH}/live.0").json()["model"] == "clone"

"""Endpoints and log lines for operators."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from tests.server.audio_decoding import CONTENT_TYPES
from tests.server.serving import SPEECH, Serving, endless, speech, streamed, write_config
from tests.server.test_bad_input import check


def test_health_answers_ok(client: httpx.Client) -> None:
    response = client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_the_api_is_documented_at_one_url(client: httpx.Client) -> None:
    assert "openapi.json" in client.get("/docs/show.js").raise_for_status().text
    assert client.get("/openapi.json").raise_for_status().json()["info"]["title"] == "Sonant"
    check(client.get("/redoc"), 404, None, "not_found")


def test_ready_answers_when_the_pipeline_works(client: httpx.Client) -> None:
    body = client.get("/ready").raise_for_status().json()
    assert (body["status"], body["model"]) == ("ready", "pocket")


def test_the_model_lists_its_capabilities_and_that_it_is_untrained(client: httpx.Client) -> None:
    body = client.get("/v1/models").raise_for_status().json()
    assert body["object"] == "list"
    (model,) = body["data"]
    assert (model["id"], model["object"], model["owned_by"]) == ("pocket", "model", "sonant")
    assert "vivian" in model["speakers"]
    assert "english" in model["languages"]
    assert sorted(model["task_types"]) == ["Base", "CustomVoice"]
    assert model["in_context"] is True
    assert model["trained"] is False
    assert "noise" in model["description"]
    assert model["weights"] in ("exact", "int8", "int4")
    assert model["real_time_factor"] > 0
    assert client.get("/v1/models/pocket").json() == model


def test_the_server_says_that_it_serves_only_once_it_does(serving: Serving) -> None:
    serving.wait_for(f"Sonant serves pocket on {serving.url}$")
    loading, serves = (
        serving.lines.index(f"{text} {serving.url}")
        for text in ("Loading pocket; listening on", "Sonant serves pocket on")
    )
    assert loading < serves


def test_the_log_says_that_the_checkpoint_is_untrained(serving: Serving) -> None:
    serving.wait_for(r"pocket: .*untrained.*noise")


def test_the_log_says_which_weights_were_selected_and_how_to_force_others(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket, engine={"talker": {"weights": "auto"}})) as server:
        server.wait_for(r"auto selects \w+; exact \d+ ms per frame of 80 ms.* Set engine.talker.weights to")
        server.wait_for(r"talker.weights: \w+; expected real-time factor of one utterance: \d")


@pytest.mark.parametrize("path", ["/health", "/nothing", "/v1/models"])
def test_keeps_a_valid_request_id(client: httpx.Client, path: str) -> None:
    assert client.get(path, headers={"X-Request-Id": "my-id.1:2"}).headers["x-request-id"] == "my-id.1:2"


@pytest.mark.parametrize("request_id", [None, "", "two words", "a" * 129, "new\u00e9"])
def test_replaces_an_invalid_request_id(client: httpx.Client, request_id: str | None) -> None:
    headers = {} if request_id is None else {"X-Request-Id": request_id.encode("latin-1")}
    ids = {client.get("/health", headers=headers).headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2
    assert request_id not in ids


def test_a_request_is_one_log_line(serving: Serving, client: httpx.Client) -> None:
    client.post(SPEECH, json=endless(max_new_tokens=26), headers={"X-Request-Id": "logged"})
    line = serving.wait_for(r".*id=logged .*").group()
    assert "status=200" in line
    assert "audio=2.00" in line
    assert "finish=length" in line
    assert "first_audio=" in line
    assert "WARNING" in line
    client.post(SPEECH, json=speech(language="klingon"), headers={"X-Request-Id": "refused"})
    serving.wait_for(r" INFO .*id=refused status=400 .*error=invalid_value param='language'")
    client.post(SPEECH, content=b" " * 2**25, headers={"X-Request-Id": "large"})
    serving.wait_for(r"id=large status=413 .*error=request_too_large")


def test_the_openapi_description_has_all_fields_and_responses(client: httpx.Client) -> None:
    text = client.get("/openapi.json").raise_for_status().text
    assert "422" not in text
    assert "ValidationError" not in text
    paths = json.loads(text)["paths"]
    body = paths[SPEECH]["post"]["requestBody"]["content"]["application/json"]
    assert {"input", "voice", "ref_audio", "extra_params", "seed"} <= set(body["schema"]["properties"])
    assert client.post(SPEECH, json={**body["example"], "max_new_tokens": 3}).headers["content-type"] == "audio/mpeg"
    answers = paths[SPEECH]["post"]["responses"]
    assert set(answers["200"]["content"]) == {*CONTENT_TYPES.values(), "text/event-stream"}
    assert {"400", "404", "429", "503", "504"} < set(answers)


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/models", "/v1/models/tts-1"])
def test_head_equals_get_without_a_body(client: httpx.Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


def test_an_idle_server_hardly_wakes_up(serving: Serving, client: httpx.Client) -> None:
    """Runs after several kinds of requests, so leftovers count: uvicorn wakes up ten times a second, others rarely.

    Counts wakeups, because their cost depends on the machine. The bound on CPU time detects a busy loop.
    """
    with streamed(client, speech(stream_format="sse")) as response:
        response.read()
    serving.until_idle()
    family = serving.processes().all
    seconds = 4.0

    def wakeups() -> int:
        statuses = [path.read_text() for each in family for path in Path(f"/proc/{each.pid}/task").glob("*/status")]
        return sum(int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0]) for status in statuses)

    def cpu_seconds() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in family)

    wakeups_before, cpu_before = wakeups(), cpu_seconds()
    time.sleep(seconds)
    assert wakeups() - wakeups_before < 30 * seconds
    assert cpu_seconds() - cpu_before < 0.1 * seconds

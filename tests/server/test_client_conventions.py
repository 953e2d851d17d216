"""What clients of OpenAI and of other speech servers send and read, although no document says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.server.serving import SPEECH, TIMEOUT, ScriptedServing, Serving, speech, write_config
from tests.server.test_bad_input import check


@pytest.fixture(scope="module")
def with_open_lists(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a key, whose lists can be read without one."""
    folder = tmp_path_factory.mktemp("open-lists")
    with ScriptedServing(write_config(folder, pocket, open_lists=True), SONANT_API_KEY="some-secret") as server:
        yield server.ready()


def test_the_list_of_voices_has_the_field_that_open_webui_and_kokoro_clients_read(client: httpx.Client) -> None:
    page = client.get("/v1/audio/voices").raise_for_status().json()
    assert page["voices"] == [{"id": card["id"], "name": card["name"]} for card in page["data"]]
    assert {"id": "ryan", "name": "ryan"} in page["voices"]


def test_models_are_listed_where_open_webui_looks(client: httpx.Client) -> None:
    assert client.get("/v1/audio/models").raise_for_status().json() == {"models": [{"id": "pocket", "name": "pocket"}]}


def test_a_model_lists_its_voices_as_in_speaches(client: httpx.Client) -> None:
    (card,) = client.get("/v1/models").raise_for_status().json()["data"]
    assert card["task"] == "text-to-speech"
    assert [voice["id"] for voice in card["voices"]] == card["speakers"]


@pytest.mark.parametrize("name", ["tts-1", "tts-1-hd", "tts-1-1106", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"])
def test_every_name_of_openais_speech_models_is_served(client: httpx.Client, name: str) -> None:
    assert client.post(SPEECH, json=speech(model=name, max_new_tokens=2)).status_code == 200
    assert client.get(f"/v1/models/{name}").raise_for_status().json()["id"] == "pocket"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/audio/speech/",
        "//v1/audio/speech",
        "/v1//audio//speech",
        "/audio/speech",
        "/audio/speech/",
        "//audio/speech",
    ],
)
def test_speech_is_served_whatever_slashes_and_version_a_client_sends(client: httpx.Client, path: str) -> None:
    url = httpx.URL(str(client.base_url)).copy_with(raw_path=path.encode())
    assert client.post(url, json=speech(max_new_tokens=2)).status_code == 200


@pytest.mark.parametrize("path", ["/models", "/models/", "/models/tts-1", "/audio/voices", "/health/", "/ready/"])
def test_other_routes_are_served_without_version_and_with_a_slash_too(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 200


def test_a_live_session_opens_without_the_version(serving: Serving) -> None:
    with connect(serving.url.replace("http", "ws", 1) + "/audio/speech/stream/") as session:
        assert session.response is not None and session.response.status_code == 101


@pytest.mark.parametrize("path", ["/modelship", "/audio", "/v2/audio/speech", "/audio/nothing"])
def test_an_unknown_path_is_a_404_with_the_right_address(client: httpx.Client, path: str) -> None:
    for method in ("GET", "POST"):
        answer = client.request(method, path)
        check(answer, 404, None, "not_found")
        message = answer.json()["error"]["message"]
        assert f"{path}'; speech is POST {SPEECH}, and /docs lists all addresses" in message


def test_lists_can_be_read_without_a_key_if_the_setting_says_so(with_open_lists: Serving) -> None:
    with httpx.Client(base_url=with_open_lists.url, timeout=TIMEOUT) as anonymous:
        for path in ("/v1/models", "/models/", "/v1/audio/models", "/v1/audio/voices"):
            assert anonymous.get(path).status_code == 200
        for method, path in (("POST", "/v1/audio/voices"), ("POST", SPEECH), ("GET", "/metrics")):
            check(anonymous.request(method, path), 401, None, "invalid_api_key")


def test_transcripts_and_consents_are_not_in_lists_read_without_a_key(with_open_lists: Serving) -> None:
    key = {"Authorization": "Bearer some-secret"}
    with httpx.Client(base_url=with_open_lists.url, timeout=TIMEOUT) as client:
        width = client.get("/v1/models").json()["data"][0]["embedding_width"]
        form = {"name": "anna", "speaker_embedding": str([1.0] * width), "consent": "private"}
        files = {name: (None, value) for name, value in form.items()}
        client.post("/v1/audio/voices", files=files, headers=key).raise_for_status()

        def consent(headers: dict[str, str]) -> str | None:
            cards = client.get("/v1/audio/voices", headers=headers).json()["data"]
            return next(card["consent"] for card in cards if card["id"] == "anna")

        assert consent(key) == "private"
        assert consent({}) is None

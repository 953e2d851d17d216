"""With several keys, stored voices and request outcomes belong to the key that created them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from server.keys.key_file import key_id, plain_key
from server.keys.valid_keys import Keys
from server.voices.config import VoiceSettings
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice
from tests.server.commands import run_command
from tests.server.live_client import live_url
from tests.server.serving import NO_CERTIFICATES, SPEECH, TIMEOUT, ScriptedServing, Serving, speech, write_config
from tests.server.test_voices import VOICES, cards, post, refusal_of, success

KEYS = ("key-of-anna", "key-of-bert")
MAX_VOICES = 10
SHARE = 8
"""Of ten places: limits.client_share is 0.8."""


@pytest.fixture(scope="module")
def two_keys(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with two keys."""
    folder = tmp_path_factory.mktemp("owners")
    (folder / "keys.txt").write_text("\n".join(KEYS))
    config = write_config(folder, pocket, keys_file="keys.txt", voices={"max_voices": MAX_VOICES})
    with Serving(config) as server:
        yield server.ready()


def client_of(server: Serving, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=TIMEOUT, verify=NO_CERTIFICATES)


@pytest.fixture
def clients(two_keys: Serving) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """One client for each key. Deletes all stored voices afterwards."""
    with client_of(two_keys, KEYS[0]) as anna, client_of(two_keys, KEYS[1]) as bert:
        yield anna, bert
        for client in (anna, bert, anna, bert):  # a key's own voice hides a shared one of the same name
            for name in stored(client):
                client.delete(f"{VOICES}/{name}")
        assert not stored(anna) + stored(bert)


def stored(client: httpx.Client) -> list[str]:
    return [name for name, card in cards(client).items() if card["type"] != "built_in"]


def embedding(client: httpx.Client, value: float = 0.1) -> list[float]:
    return [value] * int(client.get("/v1/models").json()["data"][0]["embedding_width"])


def store(client: httpx.Client, name: str, value: float = 0.1, **texts: str) -> httpx.Response:
    return post(client, name=name, speaker_embedding=json.dumps(embedding(client, value)), **texts)


def test_a_voice_of_another_key_looks_like_a_missing_one(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    assert success(store(anna, "private", consent="cons_1"))["shared"] is False
    assert stored(anna) == ["private"]
    assert anna.post(SPEECH, json=speech(voice="private")).status_code == 200
    assert stored(bert) == []

    def answers(name: str) -> list[tuple[int, str]]:
        """The responses to all requests about a voice."""
        blend = {"voices": [{"voice": name}, {"voice": "ryan"}]}
        batch = {"items": [{"input": "Hello.", "voice": name}]}
        replies = [
            bert.get(f"{VOICES}/{name}"),
            bert.delete(f"{VOICES}/{name}"),
            bert.post(SPEECH, json=speech(voice=name)),
            bert.post(SPEECH, json=speech(**blend)),
            bert.post(f"{VOICES}/blend", json=blend),
        ]
        texts = [(reply.status_code, reply.text) for reply in replies]
        item = bert.post(f"{SPEECH}/batch", json=batch).json()["results"][0]["error"]
        return [(status, text.replace(name, "NAME")) for status, text in [*texts, (0, json.dumps(item))]]

    assert answers("private") == answers("nothing")
    assert {status for status, _ in answers("private")} == {404, 0}
    assert stored(anna) == ["private"]


def test_a_live_session_cannot_use_a_voice_of_another_key(
    two_keys: Serving, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    success(store(clients[0], "private"))
    kinds = []
    for key in KEYS:
        head = {"Authorization": f"Bearer {key}"}
        with connect(live_url(two_keys), additional_headers=head, open_timeout=TIMEOUT) as live:
            config = {"type": "session.config", "voice": "private", "response_format": "pcm", "max_new_tokens": 4}
            live.send(json.dumps(config))
            live.send(json.dumps({"type": "input.text", "text": "Hello there. "}))
            with suppress(ConnectionClosed):  # the server may have refused the voice already
                live.send(json.dumps({"type": "input.done"}))
            event = json.loads(live.recv(timeout=TIMEOUT))
        kinds.append(event.get("error", event).get("code"))
    assert kinds == [None, "voice_not_found"]


def test_two_keys_may_use_the_same_name(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    success(store(anna, "same", 0.1))
    success(store(bert, "same", -0.1))
    assert refusal_of(store(anna, "same")) == (409, "name", "voice_exists")
    audio = [client.post(SPEECH, json=speech(voice="same")).content for client in clients]
    expected = [anna.post(SPEECH, json=speech(speaker_embedding=embedding(anna, each))).content for each in (0.1, -0.1)]
    assert audio == expected and audio[0] != audio[1]
    anna.delete(f"{VOICES}/same").raise_for_status()
    assert (stored(anna), stored(bert)) == ([], ["same"])


def test_a_shared_voice_belongs_to_all_keys(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    assert success(store(anna, "common", shared="true"))["shared"] is True
    blend = {"voices": [{"voice": "common"}, {"voice": "ryan"}], "name": "mixed", "shared": True}
    assert success(bert.post(f"{VOICES}/blend", json=blend))["shared"] is True
    for client in clients:
        assert stored(client) == ["common", "mixed"]
        assert client.post(SPEECH, json=speech(voice="mixed")).status_code == 200
    anna.delete(f"{VOICES}/common").raise_for_status()
    assert stored(bert) == ["mixed"]


def test_a_shared_voice_is_deleted_only_by_the_key_that_stored_it(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    success(store(anna, "common", shared="true"))
    response = bert.delete(f"{VOICES}/common")
    assert refusal_of(response) == (403, "voice_id", "voice_not_owned")
    assert "'common'" in response.json()["error"]["message"]
    assert refusal_of(store(bert, "common", -0.1, shared="true")) == (409, "name", "voice_exists")
    assert client_sees(anna, "common") == client_sees(bert, "common")
    success(store(bert, "common", -0.1))
    bert.delete(f"{VOICES}/common").raise_for_status()
    assert refusal_of(bert.delete(f"{VOICES}/common")) == (403, "voice_id", "voice_not_owned")
    anna.delete(f"{VOICES}/common").raise_for_status()
    assert refusal_of(bert.delete(f"{VOICES}/common")) == (404, "voice_id", "voice_not_found")


def client_sees(client: httpx.Client, name: str) -> tuple[dict[str, Any], bytes]:
    """The card of a voice, and speech with it."""
    return client.get(f"{VOICES}/{name}").json(), client.post(SPEECH, json=speech(voice=name)).content


def test_no_key_deletes_a_shared_voice_that_was_stored_without_a_key(
    two_keys: Serving, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    folder = two_keys.folder / "voices"
    operators = VoiceStore(VoiceSettings(folder=folder))
    operators.add(StoredVoice("of-operator", "blend", 1, "pocket", np.array(embedding(clients[0]), np.float32)))
    for client in clients:
        assert refusal_of(client.delete(f"{VOICES}/of-operator")) == (403, "voice_id", "voice_not_owned")
        assert stored(client) == ["of-operator"]
    assert operators.remove("of-operator")


def test_no_key_chooses_the_voices_that_others_get_without_naming_them(pocket: Path, tmp_path: Path) -> None:
    """Neither the default voice nor the target of an alias, also while there is no such voice."""
    (tmp_path / "keys.txt").write_text("\n".join(KEYS))
    names = {"default_voice": "House", "voice_aliases": {"alloy": "Brand"}}
    config = write_config(tmp_path, pocket, keys_file="keys.txt", **names)
    with ScriptedServing(config) as server, client_of(server.ready(), KEYS[0]) as client:
        for name in ("house", "brand"):
            for shared in ("false", "true"):
                assert refusal_of(store(client, name, shared=shared)) == (409, "name", "voice_exists")
            blend = {"voices": [{"voice": "ryan"}], "name": name}
            assert refusal_of(client.post(f"{VOICES}/blend", json=blend)) == (409, "name", "voice_exists")
        success(store(client, "other"))


def test_its_own_voice_is_found_before_a_shared_one(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    success(store(bert, "same", 0.1, shared="true"))
    success(store(anna, "same", -0.1))
    assert [client.get(f"{VOICES}/same").json()["shared"] for client in clients] == [False, True]
    assert stored(anna) == ["same"]
    anna.delete(f"{VOICES}/same").raise_for_status()
    assert anna.get(f"{VOICES}/same").json()["shared"] is True


@pytest.mark.parametrize("shared", ["false", "true"])
def test_one_key_cannot_store_all_voices(clients: tuple[httpx.Client, httpx.Client], shared: str) -> None:
    anna, bert = clients
    assert [store(anna, f"a{number}", shared=shared).status_code for number in range(SHARE)] == [200] * SHARE
    for more in ("false", "true"):
        error = store(anna, "more", shared=more)
        assert refusal_of(error) == (409, None, "voice_limit_reached")
        assert "limits.client_share" in error.json()["error"]["message"]
    for number in range(MAX_VOICES - SHARE):
        success(store(bert, f"b{number}"))
    assert refusal_of(store(bert, "more")) == (409, None, "voice_limit_reached")


def test_refuses_a_shared_flag_that_is_not_a_boolean(clients: tuple[httpx.Client, httpx.Client]) -> None:
    assert refusal_of(store(clients[0], "other", shared="perhaps")) == (400, "shared", "invalid_value")


def test_the_outcome_of_a_request_belongs_to_its_key(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    anna.post(SPEECH, json=speech(), headers={"X-Request-Id": "of-anna"}).raise_for_status()
    assert anna.get(f"{SPEECH}/of-anna").json()["status"] == 200
    assert refusal_of(bert.get(f"{SPEECH}/of-anna")) == (404, "request_id", "request_not_found")
    bert.post(SPEECH, json=speech(language="x"), headers={"X-Request-Id": "of-anna"})
    assert anna.get(f"{SPEECH}/of-anna").json()["status"] == 200
    assert bert.get(f"{SPEECH}/of-anna").json()["status"] == 400


def test_the_voices_command_shares_by_default(two_keys: Serving, clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    server = {"SONANT_SERVER": two_keys.url, "SONANT_API_KEY": KEYS[0]}
    for name, *flags in (["common"], ["private", "--private"]):
        done = run_command("voices", "blend", "ryan", "serena", "--name", name, *flags, **server)
        assert done.exit_code == 0, done.stderr
    assert (stored(anna), stored(bert)) == (["common", "private"], ["common"])


def test_a_single_key_keeps_its_voices_and_shares_new_ones(
    two_keys: Serving, clients: tuple[httpx.Client, httpx.Client], pocket: Path, tmp_path: Path
) -> None:
    """A server on the same folder, with one of the two keys only."""
    anna, bert = clients
    success(store(anna, "of-anna"))
    success(store(bert, "of-bert"))
    config = write_config(tmp_path, pocket, voices={"folder": str(two_keys.folder / "voices")})
    with ScriptedServing(config, SONANT_API_KEY=KEYS[0]) as one, client_of(one.ready(), KEYS[0]) as client:
        assert stored(client) == ["of-anna"]
        assert success(store(client, "later"))["shared"] is True
        assert success(store(client, "later-private", shared="false"))["shared"] is False
    assert sorted(stored(anna)) == ["later", "later-private", "of-anna"]
    assert sorted(stored(bert)) == ["later", "of-bert"]


def test_without_keys_every_voice_is_shared(client: httpx.Client) -> None:
    assert success(store(client, "common"))["shared"] is True
    assert refusal_of(store(client, "mine", shared="false")) == (400, "shared", "invalid_value")
    blend: dict[str, Any] = {"voices": [{"voice": "ryan"}], "name": "mine", "shared": False}
    assert refusal_of(client.post(f"{VOICES}/blend", json=blend)) == (400, "shared", "invalid_value")
    client.delete(f"{VOICES}/common").raise_for_status()


def test_the_key_id_is_a_salted_digest() -> None:
    keys = Keys(map(plain_key, [*KEYS, KEYS[0]]))
    key = keys.identify(KEYS[1])
    assert key is not None
    assert key.owner == key_id(KEYS[1]) == hashlib.sha256(b"sonant voice owner\0key-of-bert").hexdigest()[:16]
    assert keys.identify("unknown-key") is None
    assert len(keys) == 2

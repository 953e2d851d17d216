"""With several keys a stored voice, and the outcome of a request, belong to the key that made them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from server.http.keys import Keys, key_id
from tests.server.commands import run_module
from tests.server.live_client import live_url
from tests.server.serving import SPEECH, TIMEOUT, Serving, speech, write_config
from tests.server.test_voices import VOICES, cards, made, post, refused

KEYS = ("key-of-anna", "key-of-bert")
MOST = 10
SHARE = 8
"""Of ten places: limits.client_share is 0.8."""


@pytest.fixture(scope="module")
def guarded(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with two keys."""
    folder = tmp_path_factory.mktemp("owners")
    (folder / "keys.txt").write_text("\n".join(KEYS))
    config = write_config(folder, pocket, keys_file="keys.txt", voices={"max_voices": MOST})
    with Serving(config) as server:
        yield server.ready()


def client_of(server: Serving, key: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT)


@pytest.fixture
def clients(guarded: Serving) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """One with each key. No stored voice is left behind."""
    with client_of(guarded, KEYS[0]) as anna, client_of(guarded, KEYS[1]) as bert:
        yield anna, bert
        for client in (anna, bert):
            while names := stored(client):
                client.delete(f"{VOICES}/{names[0]}").raise_for_status()


def stored(client: httpx.Client) -> list[str]:
    return [name for name, card in cards(client).items() if card["type"] != "built_in"]


def embedding(client: httpx.Client, value: float = 0.1) -> list[float]:
    return [value] * int(client.get("/v1/models").json()["data"][0]["embedding_width"])


def store(client: httpx.Client, name: str, value: float = 0.1, **texts: str) -> httpx.Response:
    return post(client, name=name, speaker_embedding=json.dumps(embedding(client, value)), **texts)


def test_the_voice_of_a_key_is_as_none_for_the_others(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    assert made(store(anna, "private", consent="cons_1"))["shared"] is False
    assert stored(anna) == ["private"]
    assert anna.post(SPEECH, json=speech(voice="private")).status_code == 200
    assert stored(bert) == []

    def answers(name: str) -> list[tuple[int, str]]:
        """All that a client can ask of a voice."""
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


def test_the_voice_of_a_key_is_none_for_anothers_live_session(
    guarded: Serving, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    made(store(clients[0], "private"))
    kinds = []
    for key in KEYS:
        head = {"Authorization": f"Bearer {key}"}
        with connect(live_url(guarded), additional_headers=head, open_timeout=TIMEOUT) as live:
            config = {"type": "session.config", "voice": "private", "response_format": "pcm", "max_new_tokens": 4}
            live.send(json.dumps(config))
            live.send(json.dumps({"type": "input.text", "text": "Hello there. "}))
            live.send(json.dumps({"type": "input.done"}))
            event = json.loads(live.recv(timeout=TIMEOUT))
        kinds.append(event.get("error", event).get("code"))
    assert kinds == [None, "voice_not_found"]


def test_two_keys_may_give_one_name(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    made(store(anna, "same", 0.1))
    made(store(bert, "same", -0.1))
    assert refused(store(anna, "same")) == (409, "name", "voice_exists")
    heard = [client.post(SPEECH, json=speech(voice="same")).content for client in clients]
    said = [anna.post(SPEECH, json=speech(speaker_embedding=embedding(anna, each))).content for each in (0.1, -0.1)]
    assert heard == said and heard[0] != heard[1]
    anna.delete(f"{VOICES}/same").raise_for_status()
    assert (stored(anna), stored(bert)) == ([], ["same"])


def test_a_shared_voice_is_everybodys(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    assert made(store(anna, "common", shared="true"))["shared"] is True
    blend = {"voices": [{"voice": "common"}, {"voice": "ryan"}], "name": "mixed", "shared": True}
    assert made(bert.post(f"{VOICES}/blend", json=blend))["shared"] is True
    for client in clients:
        assert stored(client) == ["common", "mixed"]
        assert client.post(SPEECH, json=speech(voice="mixed")).status_code == 200
    bert.delete(f"{VOICES}/common").raise_for_status()
    assert stored(anna) == ["mixed"]


def test_its_own_voice_is_found_before_a_shared_one(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    made(store(bert, "same", 0.1, shared="true"))
    made(store(anna, "same", -0.1))
    assert [client.get(f"{VOICES}/same").json()["shared"] for client in clients] == [False, True]
    assert stored(anna) == ["same"]
    anna.delete(f"{VOICES}/same").raise_for_status()
    assert anna.get(f"{VOICES}/same").json()["shared"] is True


@pytest.mark.parametrize("shared", ["false", "true"])
def test_one_key_cannot_take_all_places(clients: tuple[httpx.Client, httpx.Client], shared: str) -> None:
    anna, bert = clients
    assert [store(anna, f"a{number}", shared=shared).status_code for number in range(SHARE)] == [200] * SHARE
    for more in ("false", "true"):
        error = store(anna, "more", shared=more)
        assert refused(error) == (409, None, "voice_limit_reached")
        assert "limits.client_share" in error.json()["error"]["message"]
    for number in range(MOST - SHARE):
        made(store(bert, f"b{number}"))
    assert refused(store(bert, "more")) == (409, None, "voice_limit_reached")


def test_what_is_neither_true_nor_false_is_refused(clients: tuple[httpx.Client, httpx.Client]) -> None:
    assert refused(store(clients[0], "other", shared="perhaps")) == (400, "shared", "invalid_value")


def test_the_outcome_of_a_request_is_its_keys(clients: tuple[httpx.Client, httpx.Client]) -> None:
    anna, bert = clients
    anna.post(SPEECH, json=speech(), headers={"X-Request-Id": "of-anna"}).raise_for_status()
    assert anna.get(f"{SPEECH}/of-anna").json()["status"] == 200
    assert refused(bert.get(f"{SPEECH}/of-anna")) == (404, "request_id", "request_not_found")
    bert.post(SPEECH, json=speech(language="x"), headers={"X-Request-Id": "of-anna"})
    assert anna.get(f"{SPEECH}/of-anna").json()["status"] == 200
    assert bert.get(f"{SPEECH}/of-anna").json()["status"] == 400


def test_the_command_shares_unless_it_is_told_not_to(
    guarded: Serving, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    anna, bert = clients
    server = {"SONANT_SERVER": guarded.url, "SONANT_API_KEY": KEYS[0]}
    for name, *flags in (["common"], ["private", "--private"]):
        done = run_module("server.cli", "voices", "blend", "ryan", "serena", "--name", name, *flags, **server)
        assert done.returncode == 0, done.stderr
    assert (stored(anna), stored(bert)) == (["common", "private"], ["common"])


def test_one_key_keeps_its_own_voices_and_shares_what_it_stores(
    guarded: Serving, clients: tuple[httpx.Client, httpx.Client], pocket: Path, tmp_path: Path
) -> None:
    """A server that lost its other key, and one without any, on the same folder."""
    anna, bert = clients
    made(store(anna, "of-anna"))
    made(store(bert, "of-bert"))
    config = write_config(tmp_path, pocket, voices={"folder": str(guarded.folder / "voices")})
    with Serving(config, SONANT_API_KEY=KEYS[0]) as one, client_of(one.ready(), KEYS[0]) as client:
        assert stored(client) == ["of-anna"]
        assert made(store(client, "later"))["shared"] is True
        assert made(store(client, "later-private", shared="false"))["shared"] is False
    assert sorted(stored(anna)) == ["later", "later-private", "of-anna"]
    assert sorted(stored(bert)) == ["later", "of-bert"]


def test_without_keys_every_voice_is_shared(client: httpx.Client) -> None:
    assert made(store(client, "everybodys"))["shared"] is True
    assert refused(store(client, "mine", shared="false")) == (400, "shared", "invalid_value")
    blend: dict[str, Any] = {"voices": [{"voice": "ryan"}], "name": "mine", "shared": False}
    assert refused(client.post(f"{VOICES}/blend", json=blend)) == (400, "shared", "invalid_value")
    client.delete(f"{VOICES}/everybodys").raise_for_status()


def test_a_keys_id_tells_no_other_digest_of_it() -> None:
    assert (
        Keys(KEYS).identify(KEYS[1])
        == key_id(KEYS[1])
        == hashlib.sha256(b"sonant voice owner\0key-of-bert").hexdigest()[:16]
    )
    assert Keys(KEYS).identify("key-of-nobody") is None
    assert len(Keys([*KEYS, KEYS[0]])) == 2

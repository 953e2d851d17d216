"""Who may use a server that has keys, and where one without any listens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from server.http.keys import Keys, load_keys
from server.settings import SettingsError, load_settings
from tests.server.serving import PATIENCE, SPEECH, Serving, speech, write_config
from tests.server.test_bad_input import check
from tests.server.test_commands import sonant

KEYS = ["key-of-the-environment", "first+key/of=the-file", "key-of-the-door"]
FILE = f"# who may come in\n\n{KEYS[1]}   # the telephone\n  {KEYS[2]}\n"


@pytest.fixture(scope="module")
def guarded(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with one key in its environment and two in a file that its configuration names."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text(FILE)
    config = write_config(folder, pocket, keys_file="keys", host="0.0.0.0")
    with Serving(config, SONANT_API_KEY=KEYS[0]) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        server.headers = {"Authorization": f"Bearer {KEYS[0]}"}
        yield server.ready()


@pytest.fixture
def stranger(guarded: Serving) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.url, timeout=PATIENCE) as client:
        yield client


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_each_key_opens(stranger: httpx.Client, key: str, scheme: str) -> None:
    response = stranger.post(SPEECH, json=speech(), headers={"Authorization": f"{scheme} {key}"})
    assert response.status_code == 200
    assert response.content


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {KEYS[0][:-1]}",
        f"Bearer {KEYS[0]} {KEYS[1]}",
        f"Basic {KEYS[0]}",
        KEYS[0],
        "Bearer #",
        "Bearer # who may come in",
        "Bearer caf\u00e9",
    ],
)
def test_anything_else_does_not(stranger: httpx.Client, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given.encode("latin-1")}
    response = stranger.post(SPEECH, json=speech(), headers=headers)
    error = check(response, 401, None, "invalid_api_key")
    assert error["type"] == "invalid_request_error"
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/health", "/ready", "/", "/playground/main.js", "/docs", "/openapi.json"])
def test_what_says_nothing_of_anybodys_speech_is_open(stranger: httpx.Client, path: str) -> None:
    assert stranger.get(path, follow_redirects=True).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/v1/models", f"{SPEECH}/some-id", "/nothing", "/health/"])
def test_everything_else_needs_a_key(stranger: httpx.Client, path: str) -> None:
    check(stranger.get(path), 401, None, "invalid_api_key")


def test_a_websocket_is_refused_in_its_handshake(guarded: Serving) -> None:
    head = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with httpx.Client(base_url=guarded.url, timeout=PATIENCE) as client:
        response = client.get(f"{SPEECH}/stream", headers={**head, "X-Request-Id": "no-socket"})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-request-id"] == "no-socket"
    guarded.wait_for("id=no-socket status=401 outcome=refused")
    assert response.json()["error"]["code"] == "invalid_api_key"


def test_openais_client_brings_its_key(guarded: Serving) -> None:
    url = f"{guarded.url}/v1"
    with openai.OpenAI(base_url=url, api_key=KEYS[1], max_retries=0, timeout=PATIENCE) as client:
        assert client.models.list().data[0].id == "pocket"
    stranger = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0, timeout=PATIENCE)
    with stranger, pytest.raises(openai.AuthenticationError, match="valid key"):
        stranger.models.list()


def test_no_key_is_ever_in_the_log(guarded: Serving, stranger: httpx.Client) -> None:
    for key in [*KEYS, "key-of-a-stranger"]:
        headers = {"Authorization": f"Bearer {key}", "X-Request-Id": f"last-{KEYS.index(key) if key in KEYS else 'no'}"}
        stranger.post(SPEECH, json=speech(language="x"), headers=headers)
    guarded.wait_for(r"id=last-no status=401 outcome=refused .*error=invalid_api_key")
    assert not [line for line in guarded.lines if any(key in line for key in [*KEYS, "key-of-a-stranger"])]


def test_a_stranger_is_not_remembered(guarded: Serving, stranger: httpx.Client) -> None:
    stranger.post(SPEECH, json=speech(), headers={"X-Request-Id": "stranger"})
    guarded.wait_for(r"id=stranger ")
    response = stranger.get(f"{SPEECH}/stranger", headers=guarded.headers)
    check(response, 404, "request_id", "request_not_found")


@pytest.mark.parametrize(
    "text", ["two words\n", "caf\u00e9\n", "", "# nothing\n", "\x00\n", "k" * 513], ids=lambda text: repr(text)[:20]
)
def test_a_key_file_that_cannot_be_meant_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    settings = load_settings(flags={"engine": {"model": "org/model"}, "keys_file": path})
    with pytest.raises(SettingsError, match="keys_file") as refusal:
        load_keys(settings)
    assert "words" not in str(refusal.value)


def test_a_key_file_that_is_not_there_is_named(pocket: Path, tmp_path: Path) -> None:
    done = sonant("serve", "--config", write_config(tmp_path, pocket), "--port", "0", "--keys-file", tmp_path / "keys")
    assert done.returncode == 1
    assert done.stderr.strip() == f"sonant serve: {tmp_path / 'keys'}: No such file or directory"


def test_without_a_key_a_server_stays_on_this_machine(pocket: Path, tmp_path: Path) -> None:
    command = ["serve", "--config", write_config(tmp_path, pocket), "--port", "0"]
    for host in ("0.0.0.0", "::"):
        done = sonant(*command, "--host", host, SONANT_API_KEY="")
        assert done.returncode == 1
        assert host in done.stderr
        assert "SONANT_API_KEY" in done.stderr
        assert "--allow-unauthenticated" in done.stderr


def test_without_a_key_it_listens_elsewhere_only_when_told_to(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, host="0.0.0.0")
    with Serving(config, "--allow-unauthenticated") as server:
        server.wait_for(r"Warning: .* no key")
        port = urlsplit(server.url).port
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200


def test_a_server_with_keys_warns_of_nothing(guarded: Serving) -> None:
    assert not [line for line in guarded.lines if "Warning" in line]


def test_no_keys_accept_nothing() -> None:
    assert not Keys([])
    assert Keys([]).identify("") is None

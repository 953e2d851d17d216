"""API keys: who may use a server with keys, and where a server without keys may listen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from server.keys.valid_keys import Keys, load_keys
from server.settings import SettingsError, load_settings
from tests.server.commands import run_command
from tests.server.serving import NO_CERTIFICATES, SPEECH, TIMEOUT, ScriptedServing, Serving, speech, write_config
from tests.server.test_bad_input import check

KEYS = ["key-of-the-environment", "first+key/of=the-file", "third-key"]
FILE = f"# allowed keys\n\n{KEYS[1]}   # phone\n  {KEYS[2]}\n"


@pytest.fixture(scope="module")
def with_keys(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with one key in its environment and two in the key file of its configuration."""
    folder = tmp_path_factory.mktemp("with-keys")
    (folder / "keys").write_text(FILE)
    config = write_config(folder, pocket, keys_file="keys", host="0.0.0.0")
    with ScriptedServing(config, SONANT_API_KEY=KEYS[0]) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        server.headers = {"Authorization": f"Bearer {KEYS[0]}"}
        yield server.ready()


@pytest.fixture
def anonymous(with_keys: Serving) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=with_keys.url, timeout=TIMEOUT, verify=NO_CERTIFICATES) as client:
        yield client


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_accepts_each_key(anonymous: httpx.Client, key: str, scheme: str) -> None:
    response = anonymous.post(SPEECH, json=speech(), headers={"Authorization": f"{scheme} {key}"})
    assert response.status_code == 200
    assert response.content


@pytest.mark.parametrize(
    "authorization",
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
        "Bearer # allowed keys",
        "Bearer caf\u00e9",
    ],
)
def test_refuses_everything_else(anonymous: httpx.Client, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    response = anonymous.post(SPEECH, json=speech(), headers=headers)
    error = check(response, 401, None, "invalid_api_key")
    assert error["type"] == "invalid_request_error"
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/", "/playground/main.js", "/docs", "/docs/show.js", "/openapi.json"]
)
def test_public_routes_need_no_key(anonymous: httpx.Client, path: str) -> None:
    assert anonymous.get(path, follow_redirects=True).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/v1/models", f"{SPEECH}/some-id", "/nothing", "/health/x"])
def test_all_other_routes_need_a_key(anonymous: httpx.Client, path: str) -> None:
    check(anonymous.get(path), 401, None, "invalid_api_key")


def test_refuses_a_websocket_during_the_handshake(with_keys: Serving) -> None:
    head = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with httpx.Client(base_url=with_keys.url, timeout=TIMEOUT, verify=NO_CERTIFICATES) as client:
        response = client.get(f"{SPEECH}/stream", headers={**head, "X-Request-Id": "no-socket"})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-request-id"] == "no-socket"
    with_keys.wait_for("id=no-socket status=401 outcome=refused")
    assert response.json()["error"]["code"] == "invalid_api_key"


def test_accepts_the_key_of_the_openai_client(with_keys: Serving) -> None:
    url = f"{with_keys.url}/v1"
    with openai.OpenAI(base_url=url, api_key=KEYS[1], max_retries=0, timeout=TIMEOUT) as client:
        assert client.models.list().data[0].id == "pocket"
    other = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0, timeout=TIMEOUT)
    with other, pytest.raises(openai.AuthenticationError, match="valid key"):
        other.models.list()


def test_no_key_appears_in_the_log(with_keys: Serving, anonymous: httpx.Client) -> None:
    for key in [*KEYS, "wrong-key"]:
        headers = {"Authorization": f"Bearer {key}", "X-Request-Id": f"last-{KEYS.index(key) if key in KEYS else 'no'}"}
        anonymous.post(SPEECH, json=speech(language="x"), headers=headers)
    with_keys.wait_for(r"id=last-no status=401 outcome=refused .*error=invalid_api_key")
    assert not [line for line in with_keys.lines if any(key in line for key in [*KEYS, "wrong-key"])]


def test_unauthenticated_requests_have_no_outcome(with_keys: Serving, anonymous: httpx.Client) -> None:
    anonymous.post(SPEECH, json=speech(), headers={"X-Request-Id": "unauthenticated"})
    with_keys.wait_for(r"id=unauthenticated ")
    response = anonymous.get(f"{SPEECH}/unauthenticated", headers=with_keys.headers)
    check(response, 404, "request_id", "request_not_found")


@pytest.mark.parametrize(
    "text", ["two words\n", "caf\u00e9\n", "", "# nothing\n", "\x00\n", "k" * 513], ids=lambda text: repr(text)[:20]
)
def test_refuses_an_invalid_key_file_without_printing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    settings = load_settings(flags={"engine": {"model": "org/model"}, "keys_file": path})
    with pytest.raises(SettingsError, match="keys_file") as refusal:
        load_keys(settings)
    assert "words" not in str(refusal.value)


def test_a_missing_key_file_is_named(pocket: Path, tmp_path: Path) -> None:
    done = run_command(
        "serve", "--config", write_config(tmp_path, pocket), "--port", "0", "--keys-file", tmp_path / "keys"
    )
    assert done.exit_code == 1
    assert done.stderr.strip() == f"sonant serve: {tmp_path / 'keys'}: No such file or directory"


def test_refuses_to_listen_on_other_interfaces_without_a_key(pocket: Path, tmp_path: Path) -> None:
    command = ["serve", "--config", write_config(tmp_path, pocket), "--port", "0"]
    for host in ("0.0.0.0", "::"):
        done = run_command(*command, "--host", host, SONANT_API_KEY="")
        assert done.exit_code == 1
        assert host in done.stderr
        assert "SONANT_API_KEY" in done.stderr
        assert "--allow-unauthenticated" in done.stderr


def test_listens_on_other_interfaces_without_a_key_if_allowed(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, host="0.0.0.0")
    with ScriptedServing(config, "--allow-unauthenticated") as server:
        server.wait_for(r"Warning: .* no key")
        port = urlsplit(server.url).port
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200


def test_a_server_with_keys_logs_no_warning(with_keys: Serving) -> None:
    assert not [line for line in with_keys.lines if "Warning" in line]


def test_an_empty_key_list_accepts_nothing() -> None:
    assert not Keys([])
    assert Keys([]).identify("") is None

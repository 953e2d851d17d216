"""A server without keys answers only to its own names: DNS rebinding reads nothing from it."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from server.app import create_app
from server.settings import DEFAULT_CONFIG, load_settings
from tests.server.serving import PATIENCE, SPEECH, Serving, speech
from tests.server.test_bad_input import check

REBOUND = "rebound.example"
PATHS = ["/", "/health", "/ready", "/metrics", "/docs", "/openapi.json", "/v1/models", "/v1/audio/voices", "/nothing"]


def status_of(serving: Serving, *lines: str) -> int:
    """The status of the answer to a head that is sent as it stands."""
    url = urlsplit(serving.url)
    with socket.create_connection((url.hostname, url.port), PATIENCE) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(65_536).split()[1])


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "DELETE"])
@pytest.mark.parametrize("path", [*PATHS, f"{SPEECH}/some-id", "/v1/audio/voices/anna", "/playground/main.js"])
def test_a_foreign_host_is_refused_on_every_route(client: httpx.Client, method: str, path: str) -> None:
    response = client.request(method, path, headers={"Host": f"{REBOUND}:8000"})
    assert response.status_code == 403
    if method != "HEAD":
        check(response, 403, None, "foreign_host")


def test_the_refusal_names_the_setting_and_its_value(client: httpx.Client) -> None:
    message = client.get("/health", headers={"Host": "speech.example.org:8000"}).json()["error"]["message"]
    assert "'speech.example.org'" in message
    assert "own_names: ['speech.example.org']" in message
    settings = message.partition("SONANT_OWN_NAMES='")[2].partition("'")[0]
    assert json.loads(settings) == ["speech.example.org"]


def test_a_websocket_of_a_foreign_host_is_refused(serving: Serving, client: httpx.Client) -> None:
    head = {
        "Host": REBOUND,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "X-Request-Id": "rebound-socket",
    }
    check(client.get(f"{SPEECH}/stream", headers=head), 403, None, "foreign_host")
    serving.wait_for("WS .* id=rebound-socket status=403 outcome=refused")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "page.localhost",
        "127.0.0.1",
        "10.1.2.3:8000",
        "192.168.1.2.",
        "[::1]",
        "[fd00::1]:80",
        "voice.intranet",
        "VOICE.intranet.:8000",
        "sonant",
        "my_service:8000",
        f"{socket.gethostname()}.local",
    ],
)
def test_its_own_names_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == 200
    reply = client.post(SPEECH, json=speech(max_new_tokens=2), headers={"Host": host, "Origin": f"http://{host}"})
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1.example", "localhost.example", "localhost@evil.example", "evil.example.", "[evil.example]", "a.b:c"],
)
def test_what_only_looks_like_its_own_name_is_not(client: httpx.Client, host: str) -> None:
    check(client.get("/health", headers={"Host": host}), 403, None, "foreign_host")


def test_without_a_host_it_is_a_program_that_asks(serving: Serving) -> None:
    assert status_of(serving, "GET /health HTTP/1.0") == 200
    assert status_of(serving, "GET /health HTTP/1.0", f"Host: {REBOUND}") == 403


async def test_with_a_key_any_host_is_answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SONANT_API_KEY", "some-secret")
    app = create_app(load_settings(DEFAULT_CONFIG, {"voices": {"folder": str(tmp_path)}}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{REBOUND}") as client:
        assert (await client.get("/health")).status_code == 200

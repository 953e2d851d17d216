"""A server without keys answers only requests for its own host names, which prevents DNS rebinding."""

from __future__ import annotations

import json
import socket
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest

from server.app import create_app
from server.package_data import DEFAULT_CONFIG
from server.settings import load_settings
from tests.server.serving import SPEECH, TIMEOUT, Serving, speech
from tests.server.test_bad_input import check

FOREIGN_HOST = "rebound.example"
PATHS = ["/", "/health", "/ready", "/metrics", "/docs", "/openapi.json", "/v1/models", "/v1/audio/voices", "/nothing"]


def raw_status(serving: Serving, *lines: str) -> int:
    """The status of the response to raw header lines."""
    url = urlsplit(serving.url)
    with socket.create_connection((url.hostname, url.port), TIMEOUT) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(65_536).split()[1])


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "DELETE"])
@pytest.mark.parametrize("path", [*PATHS, f"{SPEECH}/some-id", "/v1/audio/voices/anna", "/playground/main.js"])
def test_refuses_a_foreign_host_on_every_route(client: httpx.Client, method: str, path: str) -> None:
    response = client.request(method, path, headers={"Host": f"{FOREIGN_HOST}:8000"})
    assert response.status_code == 403
    if method != "HEAD":
        check(response, 403, None, "foreign_host")


def test_the_error_names_the_setting_and_its_value(client: httpx.Client) -> None:
    message = client.get("/health", headers={"Host": "speech.example.org:8000"}).json()["error"]["message"]
    assert "'speech.example.org'" in message
    assert "own_names: ['speech.example.org']" in message
    settings = message.partition("SONANT_OWN_NAMES='")[2].partition("'")[0]
    assert json.loads(settings) == ["speech.example.org"]


def test_refuses_a_websocket_with_a_foreign_host(serving: Serving, client: httpx.Client) -> None:
    head = {
        "Host": FOREIGN_HOST,
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
def test_accepts_its_own_names(client: httpx.Client, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == 200
    reply = client.post(SPEECH, json=speech(max_new_tokens=2), headers={"Host": host, "Origin": f"http://{host}"})
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1.example", "localhost.example", "localhost@evil.example", "evil.example.", "[evil.example]", "a.b:c"],
)
def test_refuses_names_that_only_resemble_its_own(client: httpx.Client, host: str) -> None:
    check(client.get("/health", headers={"Host": host}), 403, None, "foreign_host")


def test_accepts_a_request_without_a_host(serving: Serving) -> None:
    assert raw_status(serving, "GET /health HTTP/1.0") == 200
    assert raw_status(serving, "GET /health HTTP/1.0", f"Host: {FOREIGN_HOST}") == 403


async def test_with_a_key_any_host_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SONANT_API_KEY", "some-secret")
    app = create_app(load_settings(DEFAULT_CONFIG, {"voices": {"folder": str(tmp_path)}}))
    app.state.current_services = SimpleNamespace(use=nullcontext)  # no engine is started
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{FOREIGN_HOST}") as client:
        assert (await client.get("/health")).status_code == 200

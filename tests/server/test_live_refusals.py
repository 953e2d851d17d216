"""WebSocket handshakes that are refused with a status and the common error format."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response
from websockets.sync.client import connect

from tests.server.live_client import LIVE, live_url
from tests.server.serving import SPEECH, TIMEOUT, Serving, speech
from tests.server.test_bad_input import check
from tests.server.test_metrics import MetricIncrease


def refused_handshake(serving: Serving, path: str = LIVE, **headers: str) -> Response:
    """The response to a handshake that fails."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with (
        pytest.raises(InvalidStatus) as refusal,
        connect(live_url(serving, path), open_timeout=TIMEOUT, additional_headers=names),
    ):
        pass
    return refusal.value.response


def parse_error(response: Response) -> dict[str, Any]:
    """The error of a response; asserts the common error format."""
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Request-Id"]
    assert response.body is not None
    body = json.loads(response.body)
    assert list(body) == ["error"]
    assert sorted(body["error"]) == ["code", "message", "param", "type"]
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    "path", ["/v1/audio/speech/streem", "/", "/v1/audio/speech", f"{LIVE}/more", "/%00", "/caf%C3%A9"]
)
def test_refuses_an_unknown_path(serving: Serving, path: str) -> None:
    response = refused_handshake(serving, path, X_Request_Id="lost-way")
    assert response.status_code == 404
    assert parse_error(response)["code"] == "not_found"
    assert response.headers["X-Request-Id"] == "lost-way"
    serving.wait_for(r"WS .* id=lost-way status=404 outcome=refused")


def test_refuses_a_page_of_another_origin(serving: Serving, client: httpx.Client) -> None:
    grown = MetricIncrease(serving)
    foreign = "https://elsewhere.example"
    response = refused_handshake(serving, Origin=foreign, X_Request_Id="foreign")
    assert response.status_code == 403
    assert parse_error(response)["code"] == "foreign_origin"
    serving.wait_for("id=foreign status=403 outcome=refused")
    grown.update()
    assert grown("live_sessions_total", outcome="refused") == 1
    for origin in (foreign, "null", "http://[", ""):
        check(client.post(SPEECH, json=speech(), headers={"Origin": origin}), 403, None, "foreign_origin")
    client.get("/v1/models", headers={"X-Request-Id": "after-it"})
    serving.wait_for("id=after-it status=200")
    assert not [line for line in serving.lines if "without completing" in line]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "a.localhost:8000", "[::1]:8000", "voice.intranet"])
def test_accepts_pages_of_its_own_hosts(client: httpx.Client, host: str) -> None:
    reply = client.post(SPEECH, json=speech(), headers={"Origin": f"http://{host}", "Host": host})
    assert reply.status_code == 200


@pytest.mark.parametrize("host", ["rebound.example:8000", "localhost.example", "127.0.0.1.example"])
def test_refuses_a_rebound_host_name(client: httpx.Client, host: str) -> None:
    reply = client.post(SPEECH, json=speech(), headers={"Origin": f"http://{host}", "Host": host})
    check(reply, 403, None, "foreign_host")

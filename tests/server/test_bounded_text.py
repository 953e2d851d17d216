"""Client input is truncated in errors, logs and stored outcomes."""

from __future__ import annotations

import json
import logging
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.sync.client import connect

from engine.system.logs import JsonFormatter, TextFormatter
from server.telemetry.outcomes import Outcomes
from server.telemetry.record import WEBSOCKET, RequestRecord
from tests.server.live_client import live_url
from tests.server.serving import SPEECH, TIMEOUT, Serving, speech
from tests.server.test_voices import FORM, VOICES

LONG = "x" * 40_000
MAX_ANSWER = 1000
MAX_LINE = 2000


def raw_exchange(serving: Serving, data: bytes) -> str:
    """Send raw bytes and return the body of the answer."""
    url = urlsplit(serving.url)
    with socket.create_connection((url.hostname, url.port), TIMEOUT) as connection:
        connection.sendall(data)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    return received.partition(b"\r\n\r\n")[2].decode()


def check_bounded(serving: Serving, answer: str, request_id: str) -> None:
    """Assert that an error answer and the log line of its request are short."""
    assert set(json.loads(answer)["error"]) == {"message", "type", "param", "code"}
    assert len(answer) < MAX_ANSWER
    line = serving.wait_for(rf".*id={request_id} .*").group()
    assert len(line) < MAX_LINE


@pytest.mark.parametrize(
    "message",
    [
        {"type": "input.done", LONG: 1},
        {"type": "cancel", LONG: 1},
        {"type": "input.text", "text": "a", LONG: 1},
        {"type": "session.config", LONG: 1},
        {"type": "session.config", "voice": {LONG: 1}},
        {"type": "session.config", "model": LONG[:256]},
        {"type": LONG},
    ],
    ids=["done", "cancel", "text", "config", "nested", "model", "type"],
)
def test_truncates_names_in_live_messages(
    serving: Serving, message: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = f"cut-live-{request.node.callspec.id}"
    with connect(live_url(serving), additional_headers={"X-Request-Id": name}, open_timeout=TIMEOUT) as live:
        live.send(json.dumps(message))
        event = json.loads(live.recv(timeout=TIMEOUT))
    assert event["type"] == "error"
    check_bounded(serving, json.dumps({"error": event["error"]}), name)


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "field": (SPEECH, speech(**{LONG: 1})),
    "nested": (SPEECH, speech(voice={LONG: 1})),
    "extra": (SPEECH, speech(extra_params={LONG: 1})),
    "voice": (SPEECH, speech(voice=LONG[:256])),
    "format": (SPEECH, speech(response_format=LONG)),
    "language": (SPEECH, speech(language=LONG[:256])),
    "batch": (f"{SPEECH}/batch", {"items": [{"input": "a"}], LONG: 1}),
    "blend": (f"{VOICES}/blend", {"voices": [{"voice": "ryan", LONG: 1}]}),
    "share": (f"{VOICES}/blend", {"voices": [{"voice": LONG[:256]}]}),
}


@pytest.mark.parametrize("case", BODIES)
def test_truncates_names_in_json_bodies(serving: Serving, client: httpx.Client, case: str) -> None:
    path, body = BODIES[case]
    response = client.post(path, json=body, headers={"X-Request-Id": f"cut-{case}"})
    assert response.status_code in (400, 404)
    check_bounded(serving, response.text, f"cut-{case}")


@pytest.mark.parametrize(
    "part",
    [f'name="{LONG}"', f'name="{LONG}"; filename="a"', f'name="name"; filename="{LONG}"'],
    ids=["field", "file", "filename"],
)
def test_truncates_names_in_forms(
    serving: Serving, client: httpx.Client, part: str, request: pytest.FixtureRequest
) -> None:
    name = f"cut-form-{request.node.callspec.id}"
    body = f"--x\r\nContent-Disposition: form-data; {part}\r\n\r\na\r\n--x--\r\n".encode()
    response = client.post(VOICES, content=body, headers={"Content-Type": FORM, "X-Request-Id": name})
    check_bounded(serving, response.text, name)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"POST {SPEECH}/{LONG} HTTP/1.1", "cut-path"),
        (f"GET {VOICES}/{LONG} HTTP/1.1", "cut-voice"),
        (f"GET /v1/models/{LONG} HTTP/1.1", "cut-model"),
        (f"GET {SPEECH}/{LONG} HTTP/1.1", "cut-outcome"),
        (f"GET /{'%F0%9F%98%80' * 4000} HTTP/1.1", "cut-wide"),
        (f"{LONG} {SPEECH} HTTP/1.1", "cut-method"),
    ],
    ids=lambda value: value if value.startswith("cut") else "",
)
def test_truncates_paths_and_methods(serving: Serving, line: str, name: str) -> None:
    head = f"{line}\r\nHost: localhost\r\nX-Request-Id: {name}\r\nConnection: close\r\n\r\n"
    check_bounded(serving, raw_exchange(serving, head.encode()), name)


def test_truncates_handshake_headers(serving: Serving) -> None:
    head = (
        f"GET {SPEECH}/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {LONG}\r\n\r\n"
    )
    assert len(raw_exchange(serving, head.encode())) < 6000


def test_the_record_of_a_request_is_bounded() -> None:
    record = RequestRecord("one", LONG, f"{SPEECH}/{LONG}")
    record.failed(ValueError(LONG))
    assert len(record.method) + len(record.path) + len(record.failure or "") < 700


@pytest.mark.parametrize("path", [f"{SPEECH}/one", f"{SPEECH}/{LONG}", f"{SPEECH}x"])
def test_only_speech_requests_have_outcomes(path: str) -> None:
    assert not RequestRecord("one", "POST", path).is_speech
    assert not RequestRecord("one", WEBSOCKET, path).is_speech
    for method, known in (("POST", SPEECH), ("POST", f"{SPEECH}/batch"), (WEBSOCKET, f"{SPEECH}/stream")):
        assert RequestRecord("one", method, known).is_speech


def test_a_client_cannot_evict_the_outcomes_of_another() -> None:
    outcomes = Outcomes(10, share=0.5)
    outcomes.ended(RequestRecord("mine", "POST", SPEECH, client="10.0.0.1"))
    for number in range(30):
        outcomes.ended(RequestRecord(f"flood-{number}", "POST", SPEECH, client="10.0.0.2"))
    kept = [number for number in range(30) if outcomes.find(f"flood-{number}") is not None]
    assert outcomes.find("mine") is not None
    assert kept == [25, 26, 27, 28, 29]


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_log_entry_is_bounded_and_keeps_the_error(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(LONG * 100 + " is the reason")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    entry = logging.LogRecord("sonant", logging.ERROR, "file", 1, "failed: %s", (LONG * 100,), info)
    line = formatter.format(entry)
    assert len(line) < 100_000
    assert "failed: xxx" in line
    assert "is the reason" in line

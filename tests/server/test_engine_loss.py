"""The engine process stalls or dies under a request."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.server.raw_http import HEAD, connect, parse, read_all
from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import check
from tests.server.test_events import events


@pytest.fixture(scope="module")
def fragile(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose engine may be killed."""
    with Serving(write_config(tmp_path_factory.mktemp("fragile"), pocket)) as server:
        yield server.ready()


def signal_engine(server: Serving, number: int) -> None:
    for child in psutil.Process(server.process.pid).children(recursive=True):
        child.send_signal(number)


def kill_engine(server: Serving) -> None:
    signal_engine(server, signal.SIGKILL)


@contextmanager
def stalled_engine(server: Serving) -> Iterator[None]:
    """The engine process is there and does nothing."""
    signal_engine(server, signal.SIGSTOP)
    try:
        yield
    finally:
        signal_engine(server, signal.SIGCONT)


def test_a_raw_stream_breaks_off_and_does_not_end_cleanly(fragile: Serving) -> None:
    fragile.until_ready()
    with (
        fragile.client() as client,
        pytest.raises(httpx.RemoteProtocolError),
        streamed(client, endless(), **{"X-Request-Id": "broken"}) as response,
    ):
        pieces = response.iter_raw()
        assert next(pieces)
        kill_engine(fragile)
        list(pieces)
    assert "error=" in fragile.wait_for(r".*id=broken .*").group()


@pytest.mark.parametrize("extra", [b"", b"\r\n"], ids=["", "and an empty line after the request"])
def test_a_raw_stream_to_an_old_client_is_reset(fragile: Serving, extra: bytes) -> None:
    """HTTP/1.0 has no chunks: the end of the connection would be the end of the audio."""
    fragile.until_ready()
    body = json.dumps(endless()).encode()
    head = HEAD.replace("HTTP/1.1", "HTTP/1.0") + f"Content-Length: {len(body)}\r\n\r\n"
    with connect(fragile, head.encode() + body) as client:
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert client.recv(65_536)
        if extra:
            client.sendall(extra)  # which some clients do, and which ends the request
        else:
            kill_engine(fragile)
        with pytest.raises(ConnectionResetError):
            read_all(client)


def test_a_whole_stream_to_an_old_client_ends_cleanly(fragile: Serving) -> None:
    fragile.until_ready()
    body = json.dumps(speech()).encode()
    head = HEAD.replace("HTTP/1.1", "HTTP/1.0") + f"Content-Length: {len(body)}\r\n\r\n"
    with fragile.client() as client, connect(fragile, head.encode() + body) as old:
        assert parse(read_all(old))[2] == client.post(SPEECH, json=speech()).content


@pytest.mark.parametrize("fields", [{}, {"split": "sentence", "input": "Good morning to all of you. " * 50}])
def test_an_event_stream_tells_the_error_and_ends(fragile: Serving, fields: dict) -> None:
    fragile.until_ready()
    with fragile.client() as client, streamed(client, endless(stream_format="sse", **fields)) as response:
        heard = events(response.iter_lines())
        assert next(heard)["type"] == "speech.audio.delta"
        kill_engine(fragile)
        *_, last = heard
    assert last["type"] == "error"
    assert last["error"]["type"] == "server_error"
    assert sorted(last["error"]) == ["code", "message", "param", "type"]


def test_a_whole_body_that_fails_midway_has_a_status(fragile: Serving) -> None:
    fragile.until_ready()
    # The kill must come while the request runs: once it holds its seat.
    killer = threading.Thread(target=lambda: (fragile.until(busy), kill_engine(fragile)))
    killer.start()
    with fragile.client() as client:
        response = client.post(SPEECH, json=endless(stream=False))
    killer.join()
    assert response.status_code in (500, 503), response.text
    assert response.json()["error"]["type"] == "server_error"


def test_a_silent_event_stream_is_kept_alive_by_comments(fragile: Serving) -> None:
    fragile.until_ready()
    with fragile.client() as client, streamed(client, endless(stream_format="sse")) as response:
        lines = response.iter_lines()
        assert next(lines) == "event: speech.audio.delta"
        with stalled_engine(fragile):
            assert ": ping" in lines
        assert "event: speech.audio.delta" in lines
    fragile.until_idle()


def test_a_pipeline_that_does_not_move_is_up_but_not_ready(fragile: Serving) -> None:
    fragile.until_ready()
    with fragile.client() as client:
        with stalled_engine(fragile):
            check(client.get("/ready"), 503, None, "engine_stalled")
            assert client.get("/health").status_code == 200
        fragile.until_ready()


def test_the_server_speaks_again_afterwards(fragile: Serving) -> None:
    kill_engine(fragile)
    fragile.until_ready()
    with fragile.client() as client:
        assert client.post(SPEECH, json=speech()).status_code == 200
    fragile.until_idle()

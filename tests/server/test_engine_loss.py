"""The engine process stalls or dies under a request."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.server.raw_http import HEAD, connect, parse, read_all
from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import check
from tests.server.test_events import events
from tests.server.test_metrics import figures, value


@pytest.fixture(scope="module")
def fragile(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose engine may be killed."""
    config = write_config(tmp_path_factory.mktemp("fragile"), pocket, engine={"stall_seconds": 8})
    with Serving(config) as server:
        yield server.ready()


class Breakable(Serving):
    """A server whose engine's parts can be broken."""

    program = ("-m", "tests.faults.breakable")


def signal_engine(server: Serving, number: int) -> None:
    for process in server.processes().engine:
        process.send_signal(number)


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


def test_an_engine_that_stalls_and_goes_on_is_not_ready_meanwhile(fragile: Serving) -> None:
    fragile.until_ready()
    before = restarts(fragile)
    with stalled_engine(fragile):
        fragile.until_not_ready("engine_stalled")
    fragile.until_ready()
    assert restarts(fragile) == before


def test_a_stopped_engine_is_restarted_and_the_server_answers_meanwhile(pocket: Path, tmp_path: Path) -> None:
    """With the request ring full: each of the recordings is a quarter of it."""
    config = write_config(tmp_path, pocket, engine={"stall_seconds": 6})
    recordings = [speech(ref_audio=data_url(tone(29 - n / 10)), ref_text="la la") for n in range(6)]
    with Serving(config) as server, ThreadPoolExecutor() as threads:
        server.ready()
        with server.client() as client, streamed(client, endless()) as response:
            pieces = response.iter_raw()
            assert next(pieces)
            signal_engine(server, signal.SIGSTOP)
            with server.client() as other:
                waiting = [threads.submit(other.post, SPEECH, json=each) for each in recordings]
                other.timeout = 3.0  # less than each of these took while they waited for the engine
                server.until_not_ready("engine_stalled", other)
                assert other.get("/health").status_code == 200
                assert value(figures(server), "engine_up") == 0
                check(other.post(SPEECH, json=speech()), 503, None, "engine_stalled")
                with pytest.raises(httpx.RemoteProtocolError):
                    list(pieces)
                assert {each.result().status_code for each in waiting} <= {500, 503}
        server.until_ready()
        assert restarts(server) == {"crashed": 0, "stalled": 1, "failed": 0}
        with server.client() as client:
            assert client.post(SPEECH, json=speech()).status_code == 200
        assert server.wait_for("killing the engine process .* has not answered for 6")


def test_models_that_fail_make_the_server_unready_until_the_engine_works_again(pocket: Path, tmp_path: Path) -> None:
    fault = tmp_path / "code2wav"
    with Breakable(write_config(tmp_path, pocket), BROKEN_PARTS=str(tmp_path)) as server:
        server.ready()
        fault.touch()
        with server.client() as client:
            assert client.post(SPEECH, json=speech()).status_code == 500
            server.until_not_ready(None)
            server.wait_for(r"restarting it")
            assert value(figures(server), "engine_up") == 0
            check(client.post(SPEECH, json=speech()), 503, None, "engine_unavailable")
            fault.unlink()
            server.until_ready()
            assert client.post(SPEECH, json=speech()).status_code == 200
        assert restarts(server)["crashed"] == 1


def restarts(server: Serving) -> dict[str, int]:
    """Restarts of the engine by reason."""
    now = figures(server)
    return {
        reason: int(value(now, "engine_restarts_total", reason=reason)) for reason in ("crashed", "stalled", "failed")
    }


def test_the_server_speaks_again_afterwards(fragile: Serving) -> None:
    kill_engine(fragile)
    fragile.until_ready()
    with fragile.client() as client:
        assert client.post(SPEECH, json=speech()).status_code == 200
    fragile.until_idle()

"""The engine process stalls or dies during a request."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.server.raw_http import HEAD, connect, parse, read_all
from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, TIMEOUT, Serving, endless, speech, streamed, write_config
from tests.server.test_bad_input import check
from tests.server.test_metrics import metric, scrape
from tests.server.test_sse import parse_events


@pytest.fixture(scope="module")
def disposable(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose engine tests may kill."""
    config = write_config(tmp_path_factory.mktemp("disposable"), pocket, engine={"stall_seconds": 8})
    with Serving(config) as server:
        yield server.ready()


class Breakable(Serving):
    """A server that runs an engine with fault injection."""

    program = ("-m", "tests.faults.breakable")


def signal_engine(server: Serving, number: int) -> None:
    for process in server.processes().engine:
        process.send_signal(number)


def kill_engine(server: Serving) -> None:
    signal_engine(server, signal.SIGKILL)


@contextmanager
def stalled_engine(server: Serving) -> Iterator[None]:
    """The engine process exists but is stopped."""
    signal_engine(server, signal.SIGSTOP)
    try:
        yield
    finally:
        signal_engine(server, signal.SIGCONT)


def test_an_engine_crash_truncates_a_raw_stream(disposable: Serving) -> None:
    disposable.until_ready()
    with (
        disposable.client() as client,
        pytest.raises(httpx.RemoteProtocolError),
        streamed(client, endless(), **{"X-Request-Id": "broken"}) as response,
    ):
        pieces = response.iter_raw()
        assert next(pieces)
        kill_engine(disposable)
        list(pieces)
    assert "error=" in disposable.wait_for(r".*id=broken .*").group()


@pytest.mark.parametrize("extra", [b"", b"\r\n"], ids=["", "empty line after the request"])
def test_an_engine_crash_resets_the_connection_of_an_http_1_0_client(disposable: Serving, extra: bytes) -> None:
    """HTTP/1.0 has no chunked encoding: a normal close would look like the end of the audio."""
    disposable.until_ready()
    body = json.dumps(endless()).encode()
    head = HEAD.replace("HTTP/1.1", "HTTP/1.0") + f"Content-Length: {len(body)}\r\n\r\n"
    with connect(disposable, head.encode() + body) as client:
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert client.recv(65_536)
        if extra:
            client.sendall(extra)  # some clients send this, and it ends the request
        else:
            kill_engine(disposable)
        with pytest.raises(ConnectionResetError):
            read_all(client)


def test_a_complete_stream_to_an_http_1_0_client_ends_cleanly(disposable: Serving) -> None:
    disposable.until_ready()
    body = json.dumps(speech()).encode()
    head = HEAD.replace("HTTP/1.1", "HTTP/1.0") + f"Content-Length: {len(body)}\r\n\r\n"
    with disposable.client() as client, connect(disposable, head.encode() + body) as http_1_0:
        assert parse(read_all(http_1_0))[2] == client.post(SPEECH, json=speech()).content


@pytest.mark.parametrize("fields", [{}, {"split": "sentence", "input": "Good morning to all of you. " * 50}])
def test_an_engine_crash_breaks_an_event_stream_after_an_error_event(disposable: Serving, fields: dict) -> None:
    disposable.until_ready()
    with disposable.client() as client, streamed(client, endless(stream_format="sse", **fields)) as response:
        received = parse_events(response.iter_lines())
        assert next(received)["type"] == "speech.audio.delta"
        kill_engine(disposable)
        last = next(event for event in received if event["type"] != "speech.audio.delta")
        with pytest.raises(httpx.RemoteProtocolError):  # for clients that ignore error events
            next(received)
    assert last["type"] == "error"
    assert last["error"]["type"] == "server_error"
    assert sorted(last["error"]) == ["code", "message", "param", "type"]


def test_a_request_whose_engine_is_lost_before_its_audio_is_answered_after_the_restart(disposable: Serving) -> None:
    disposable.until_ready()
    with disposable.client() as client, ThreadPoolExecutor(1) as threads:
        signal_engine(disposable, signal.SIGSTOP)
        waiting = threads.submit(client.post, SPEECH, json=speech(), headers={"X-Request-Id": "moved"})
        with disposable.client() as other:
            while metric(scrape(disposable), "requests_running") < 1:
                assert other.get("/health").status_code == 200
        kill_engine(disposable)
        response = waiting.result()
        assert response.status_code == 200, response.text
        assert "moves=1 " in disposable.wait_for(r".*id=moved .*").group()
        assert response.content == client.post(SPEECH, json=speech()).content
    assert metric(scrape(disposable), "request_moves_total") == 1
    disposable.until_idle()


def test_an_idle_event_stream_sends_ping_comments(disposable: Serving) -> None:
    disposable.until_ready()
    with disposable.client() as client, streamed(client, endless(stream_format="sse")) as response:
        lines = response.iter_lines()
        assert next(lines) == "event: speech.audio.delta"
        with stalled_engine(disposable):
            assert ": ping" in lines
        assert "event: speech.audio.delta" in lines
    disposable.until_idle()


def test_a_stalled_engine_is_not_ready_until_it_resumes(disposable: Serving) -> None:
    disposable.until_ready()
    before = restarts(disposable)
    with stalled_engine(disposable):
        disposable.until_not_ready("engine_stalled")
    disposable.until_ready()
    assert restarts(disposable) == before


def test_a_stopped_engine_is_restarted_while_the_server_stays_responsive(disposable: Serving) -> None:
    """The request ring is full: each of the recordings takes a quarter of it."""
    disposable.until_ready()
    before = restarts(disposable)
    recordings = [speech(ref_audio=data_url(tone(29 - n / 10)), ref_text="la la " * 50) for n in range(6)]
    with ThreadPoolExecutor() as threads:
        with disposable.client() as client, streamed(client, endless()) as response:
            pieces = response.iter_raw()
            assert next(pieces)
            signal_engine(disposable, signal.SIGSTOP)
            with disposable.client() as other:
                waiting = [threads.submit(other.post, SPEECH, json=each, timeout=TIMEOUT) for each in recordings]
                other.timeout = 3.0  # shorter than the wait of each request for the engine
                disposable.until_not_ready("engine_stalled", other)
                assert other.get("/health").status_code == 200
                assert metric(scrape(disposable), "engine_up") == 0
                check(other.post(SPEECH, json=speech()), 503, None, "engine_stalled")
                with pytest.raises(httpx.RemoteProtocolError):
                    list(pieces)
                assert {each.result().status_code for each in waiting} == {200}
        disposable.until_ready()
        assert restarts(disposable) == {**before, "stalled": before["stalled"] + 1}
        with disposable.client() as client:
            assert client.post(SPEECH, json=speech()).status_code == 200
        assert disposable.wait_for("killing the engine process .* has not answered for 8")


def test_failing_models_make_the_server_unready_until_the_engine_recovers(pocket: Path, tmp_path: Path) -> None:
    fault = tmp_path / "code2wav"
    config = write_config(tmp_path, pocket, limits={"restart_wait_seconds": 0})
    with Breakable(config, BROKEN_PARTS=str(tmp_path)) as server:
        server.ready()
        fault.touch()
        with server.client() as client:
            refused = client.post(SPEECH, json=speech())
            check(refused, 503, None, "engine_unavailable")
            assert "limits.restart_wait_seconds" in refused.json()["error"]["message"]
            server.until_not_ready(None)
            server.wait_for("restarting the engine process: it failed")
            assert metric(scrape(server), "engine_up") == 0
            check(client.post(SPEECH, json=speech()), 503, None, "engine_unavailable")
            fault.unlink()
            server.until_ready()
            assert client.post(SPEECH, json=speech()).status_code == 200
        assert restarts(server)["crashed"] == 1


def restarts(server: Serving) -> dict[str, int]:
    """Engine restarts by reason."""
    now = scrape(server)
    return {
        reason: int(metric(now, "engine_restarts_total", reason=reason)) for reason in ("crashed", "stalled", "failed")
    }

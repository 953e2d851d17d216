"""How ``sonant serve`` ends."""

from __future__ import annotations

import base64
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.server.serving import PATIENCE, SPEECH, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import check
from tests.server.test_events import events


def test_serve_stops_when_told_and_leaves_no_process(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket)) as server:
        server.ready()
        family = psutil.Process(server.process.pid).children(recursive=True)
        assert family
    assert server.process.returncode == 0
    gone, alive = psutil.wait_procs(family, PATIENCE)
    assert not alive
    assert len(gone) == len(family)


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_serve_lets_an_utterance_end_before_it_stops(pocket: Path, tmp_path: Path, form: str) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server, server.client() as client:
        asked = endless(max_new_tokens=150)
        alone = client.post(SPEECH, json=asked).content
        with streamed(client, {**asked, "stream_format": form}) as response:
            pieces = response.iter_raw()
            heard = [next(pieces)]
            server.process.terminate()
            server.wait_for(r"1 utterance is being finished; Ctrl-C stops now")
            heard.extend(pieces)
    assert audio_of(b"".join(heard), form) == alone


def audio_of(body: bytes, form: str) -> bytes:
    """The audio of a complete body; an event stream must have ended well."""
    if form == "audio":
        return body
    *deltas, last = events(body.decode().splitlines())
    assert last["type"] == "speech.audio.done"
    return b"".join(base64.b64decode(delta["audio"]) for delta in deltas)


def test_serve_stops_quietly_when_it_is_interrupted(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0
    assert not [line for line in server.lines if "Traceback" in line or "Abort" in line]


def test_a_server_told_to_stop_says_so_until_the_last_one_has_ended(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server, server.client() as client:
        with server.asked(endless(), "last", window=4096) as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
            server.process.terminate()
            server.wait_for(r"1 utterance is being finished")
            for refused in (client.get("/ready"), client.post(SPEECH, json=speech())):
                check(refused, 503, None, "draining")
                assert int(refused.headers["retry-after"]) > 0
            assert client.get("/health").status_code == 200
            assert "sonant_requests_running 1.0" in client.get("/metrics").text
        assert server.process.wait(PATIENCE) == 0
    server.wait_for(r"id=last status=499")


def test_whoever_waited_in_line_is_served_before_the_stop(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, limits={"max_running": 1})
    with Serving(config).ready() as server, server.client() as client:
        alone = client.post(SPEECH, json=speech()).content
        with (
            ThreadPoolExecutor(1) as others,
            server.asked(endless(), "first", window=4096) as connection,
        ):
            assert connection.recv(12) == b"HTTP/1.1 200"
            waiting = others.submit(httpx.post, server.url + SPEECH, json=speech(), timeout=PATIENCE)
            server.until(lambda stats: stats["requests"] == 2)
            server.process.terminate()
            server.wait_for(r"2 utterances are being finished")
            connection.close()
            assert waiting.result().content == alone
        assert server.process.wait(PATIENCE) == 0


def test_what_does_not_end_in_time_is_broken_off(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, limits={"drain_seconds": 0.5})
    with Serving(config).ready() as server, server.asked(endless(), "long", window=4096) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0
    server.wait_for(r"1 utterance is broken off")
    server.wait_for(r"id=long .*error=stopped")
    assert not [line for line in server.lines if "Traceback" in line]


def test_half_a_request_does_not_hold_the_stop_up(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket, limits={"drain_seconds": 3600})).ready() as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), PATIENCE) as connection:
            connection.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\n")
            server.stats()
            server.process.terminate()
            assert server.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("form", ["audio", "sse"])
def test_a_second_signal_stops_at_once(pocket: Path, tmp_path: Path, form: str, told: signal.Signals) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server, server.client() as client:
        with (
            pytest.raises(httpx.RemoteProtocolError),
            streamed(client, endless(stream_format=form), **{"X-Request-Id": "cut"}) as response,
        ):
            pieces = response.iter_raw()
            assert next(pieces)
            server.process.send_signal(told)
            server.wait_for(r"1 utterance is being finished")
            server.process.send_signal(told)
            list(pieces)
        assert server.process.wait(PATIENCE) == 0
    assert "error=stopped" in server.wait_for(r".*id=cut .*").group()
    assert not [line for line in server.lines if "Traceback" in line or "Error" in line]


def test_a_whole_body_that_is_cut_short_by_the_stop_has_a_status(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server:
        with server.asked(endless(stream=False), "cut") as connection:
            server.until(busy)
            server.process.send_signal(signal.SIGINT)
            server.wait_for(r"1 utterance is being finished")
            server.process.send_signal(signal.SIGINT)
            assert connection.recv(12) == b"HTTP/1.1 503"
        assert server.process.wait(PATIENCE) == 0
    assert not [line for line in server.lines if "Traceback" in line]

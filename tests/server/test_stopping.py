"""How ``sonant serve`` ends."""

from __future__ import annotations

import base64
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from tests.server.serving import PATIENCE, SPEECH, Serving, busy, endless, streamed, write_config
from tests.server.test_events import events


def test_serve_stops_when_told_and_leaves_no_process(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket)) as server:
        server.ready()
        family = psutil.Process(server.process.pid).children(recursive=True)
        assert family
    assert server.process.returncode == -signal.SIGTERM
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


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_a_second_interrupt_stops_at_once(pocket: Path, tmp_path: Path, form: str) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server, server.client() as client:
        with (
            pytest.raises(httpx.RemoteProtocolError),
            streamed(client, endless(stream_format=form), **{"X-Request-Id": "cut"}) as response,
        ):
            pieces = response.iter_raw()
            assert next(pieces)
            server.process.send_signal(signal.SIGINT)
            server.wait_for(r"1 utterance is being finished")
            server.process.send_signal(signal.SIGINT)
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

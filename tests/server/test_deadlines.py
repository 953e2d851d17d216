"""Deadlines for clients that stop reading and for utterances that do not start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server.live_client import TEXT, receive_error, send_text, session
from tests.server.serving import LOOPING, SPEECH, Serving, endless, speech, streamed, write_config
from tests.server.test_bad_input import check


@pytest.fixture(scope="module")
def short_timeouts(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with short timeouts for clients that stop reading or sending."""
    limits = {"stalled_seconds": 1.0, "live_idle_seconds": 0.3}
    with Serving(write_config(tmp_path_factory.mktemp("short-timeouts"), pocket, limits=limits)) as server:
        yield server.ready()


@pytest.fixture(scope="module")
def one_slot(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with one slot and short timeouts for the first audio and for live sessions."""
    limits = {"first_sound_seconds": 2.0, "live_seconds": 0.5}
    folder = tmp_path_factory.mktemp("one-slot")
    with Serving(write_config(folder, pocket, limits=limits, engine={"talker": {"slots": 1}})) as server:
        yield server.ready()


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_a_client_that_stops_reading_is_disconnected(short_timeouts: Serving, form: str) -> None:
    with short_timeouts.send_speech(endless(stream_format=form), f"stalled-{form}", window=4096) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        line = short_timeouts.wait_for(rf".*id=stalled-{form} status=499.*").group()
        assert "error=client_left" in line
        short_timeouts.until_idle()
        received = b""
        with suppress(ConnectionError):
            while more := connection.recv(65_536):
                received += more
        assert not received.endswith(b"0\r\n\r\n")
    assert not [line for line in short_timeouts.lines if "Traceback" in line or "uvicorn" in line]


def test_a_live_session_without_text_times_out(short_timeouts: Serving) -> None:
    with session(short_timeouts) as socket:
        send_text(socket, "One two")
        assert receive_error(socket)["code"] == "session_idle"


def test_a_live_session_has_a_maximum_duration(one_slot: Serving) -> None:
    with session(one_slot) as silent, session(one_slot, **LOOPING, max_new_tokens=4000) as speaking:
        send_text(speaking, TEXT)
        assert receive_error(silent)["code"] == receive_error(speaking)["code"] == "session_expired"
    one_slot.until_idle()


def test_an_utterance_that_does_not_start_in_time_is_a_504(one_slot: Serving) -> None:
    with one_slot.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        with one_slot.client() as other:
            for body in (speech(), speech(stream=False), speech(stream_format="sse")):
                error = check(other.post(SPEECH, json=body), 504, None, "deadline_exceeded")
                assert error["type"] == "server_error"
        assert one_slot.stats()["requests"] == 1
    one_slot.until_idle()

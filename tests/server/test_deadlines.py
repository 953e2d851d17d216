"""Listeners that take nothing, and utterances that do not begin: neither holds a place for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server.live_client import TEXT, refusal, session, write
from tests.server.serving import SPEECH, STEADY, Serving, endless, speech, streamed, write_config
from tests.server.test_bad_input import check


@pytest.fixture(scope="module")
def impatient(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with little patience for listeners, and for those who do not go on."""
    limits = {"stalled_seconds": 1.0, "live_idle_seconds": 0.3}
    with Serving(write_config(tmp_path_factory.mktemp("impatient"), pocket, limits=limits)) as server:
        yield server.ready()


@pytest.fixture
def crowded(pocket: Path, tmp_path: Path) -> Iterator[Serving]:
    """A server of one slot, which waits a short time for it, and has a short time for each live session."""
    limits = {"first_sound_seconds": 2.0, "live_seconds": 0.5}
    with Serving(write_config(tmp_path, pocket, limits=limits, engine={"talker": {"slots": 1}})) as server:
        yield server.ready()


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_a_listener_that_takes_nothing_has_left(impatient: Serving, form: str) -> None:
    with impatient.asked(endless(stream_format=form), f"stalled-{form}", window=4096) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        line = impatient.wait_for(rf".*id=stalled-{form} status=499.*").group()
        assert "error=client_left" in line
        impatient.until_idle()
        heard = b""
        with suppress(ConnectionError):
            while more := connection.recv(65_536):
                heard += more
        assert not heard.endswith(b"0\r\n\r\n")
    assert not [line for line in impatient.lines if "Traceback" in line or "uvicorn" in line]


def test_a_live_session_that_waits_too_long_for_text_ends(impatient: Serving) -> None:
    with session(impatient) as socket:
        write(socket, "One two")
        assert refusal(socket)["code"] == "session_idle"


def test_a_live_session_that_lasts_too_long_ends_whatever_it_does(crowded: Serving) -> None:
    with session(crowded) as silent, session(crowded, **STEADY, max_new_tokens=4000) as speaking:
        write(speaking, TEXT)
        assert refusal(silent)["code"] == refusal(speaking)["code"] == "session_expired"
    crowded.until_idle()


def test_an_utterance_that_does_not_begin_in_time_is_a_504(crowded: Serving) -> None:
    with crowded.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        with crowded.client() as other:
            for asked in (speech(), speech(stream=False), speech(stream_format="sse")):
                error = check(other.post(SPEECH, json=asked), 504, None, "deadline_exceeded")
                assert error["type"] == "server_error"
        assert crowded.stats()["requests"] == 1
    crowded.until_idle()

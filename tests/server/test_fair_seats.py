"""Clients that keep the engine waiting, or hold more than their share, lose seats to those who wait."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from server.errors import ClientDisconnected
from server.http.disconnect import cancel_on_disconnect
from server.synthesis.admission import Admission
from server.synthesis.streaming import ResponseWriter
from server.telemetry.record import RequestRecord
from tests.server.live_client import TEXT, hear, hear_first, live_url, refusal, say, session, write
from tests.server.serving import PATIENCE, SPEECH, STEADY, Serving, busy, endless, speech, write_config
from tests.server.test_admission import Clock
from tests.server.test_admission import refusal as refused
from tests.server.test_bad_input import check

SEATS = 2
RATE = 48_000
"""Samples a second: the more bytes a second of audio has, the less of it do the system's buffers hold."""
CONTENDED_S = 1.0
END = b"0\r\n\r\n"
"""The last chunk of a reply that ends well."""
OTHER = "127.0.0.2"
"""Another client: the whole of 127.0.0.0/8 is this machine."""


@pytest.fixture(scope="module")
def fair(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two seats, of which one client may keep one; short patience with clients that keep the engine waiting."""
    limits = {
        "max_running": SEATS,
        "max_live_sessions": 4,
        "contended_wait_seconds": CONTENDED_S,
        "first_sound_seconds": 20.0,
    }
    config = write_config(tmp_path_factory.mktemp("fair"), pocket, limits=limits, default_voice="serena")
    with Serving(config) as server:
        yield server.ready()


def speak(server: Serving, name: str, client: str = "127.0.0.1") -> httpx.Response:
    """One short utterance, for the client at that address."""
    transport = httpx.HTTPTransport(local_address=client)
    with httpx.Client(base_url=server.url, transport=transport, timeout=PATIENCE) as http:
        return http.post(SPEECH, json=speech(), headers={"X-Request-Id": name})


def until_running(server: Serving, count: int) -> None:
    server.until(lambda stats: stats["engine"]["talker_slots"] == count)


def trickle(socket: ClientConnection) -> None:
    """Send a word now and then until the session is closed."""
    with suppress(Exception):
        while True:
            write(socket, " word")
            time.sleep(0.4)


def test_live_sessions_that_trickle_lose_their_seats_to_a_request_that_waits(fair: Serving) -> None:
    with ExitStack() as held:
        sessions = [
            held.enter_context(session(fair, f"trickle-{number}", **STEADY, max_new_tokens=4000))
            for number in range(SEATS)
        ]
        for live in sessions:
            write(live, "One two ")
            hear_first(live)
            threading.Thread(target=trickle, args=(live,), daemon=True).start()
        assert speak(fair, "beside-tricklers").status_code == 200
        fair.wait_for(r"id=trickle-\d\.0 status=408 outcome=evicted .*error='?client_too_slow")
        evicted = fair.wait_for(r"id=trickle-(\d) status=408 outcome=evicted")
        error = refusal(sessions[int(evicted.group(1))])
        assert error["code"] == "client_too_slow"
        assert "1 s are allowed" in error["message"]
        for live in sessions:
            live.socket.close()
    fair.until_idle()


def test_a_live_session_that_pauses_is_not_ended_while_no_request_waits(fair: Serving) -> None:
    with session(fair, max_new_tokens=200) as live:
        write(live, "One two ")
        hear_first(live)
        time.sleep(2 * CONTENDED_S)
        say(live, TEXT)
        assert hear(live)[1][-1]["type"] == "audio.done"
    fair.until_idle()


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_slow_readers_lose_their_seats_to_a_request_that_waits(fair: Serving, form: str) -> None:
    body = endless(stream_format=form, response_format="pcm", sample_rate=RATE)
    with ThreadPoolExecutor(SEATS) as clients, ExitStack() as held:
        slow = [held.enter_context(fair.asked(body, f"slow-{form}-{number}", window=16_384)) for number in range(SEATS)]
        until_running(fair, SEATS)
        assert speak(fair, f"beside-slow-{form}").status_code == 200
        readers = [clients.submit(rest_of, each) for each in slow]  # only one seat was waited for: the other goes on
        heard = next(as_completed(readers, PATIENCE)).result()
        fair.wait_for(rf"id=slow-{form}-\d status=200 outcome=evicted .*error='?client_too_slow")
        for each in slow:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
    assert heard.endswith(END) == (form == "sse")
    if form == "sse":
        error = json.loads(heard.split(b"event: error")[1].split(b"data: ")[1].split(b"\n")[0])
        assert error["error"]["code"] == "client_too_slow"
    fair.until_idle()


def rest_of(connection: socket.socket) -> bytes:
    """What is still to come of a reply, to its end or until the connection is closed."""
    heard = b""
    with suppress(ConnectionError):
        while not heard.endswith(END) and (more := connection.recv(1 << 20)):
            heard += more
    return heard


def test_listeners_in_real_time_keep_their_seats_beside_requests_that_wait(fair: Serving) -> None:
    """They take each second of audio in a second, from an engine that is always ahead of them and blocked."""
    seconds = 6.0
    with ThreadPoolExecutor(SEATS + 1) as clients:
        paced = [clients.submit(read_in_real_time, fair, f"paced-{number}", seconds) for number in range(SEATS)]
        fair.until(lambda stats: stats["requests"] == SEATS)
        waiting = clients.submit(speak, fair, "beside-paced")
        assert all(each.result() for each in paced)
        assert waiting.result().status_code == 200
    for number in range(SEATS):
        fair.wait_for(rf"id=paced-{number} status=200 outcome=completed")
    fair.until_idle()


def read_in_real_time(server: Serving, name: str, seconds: float) -> bool:
    """Whether the stream ended well."""
    body = endless(max_new_tokens=int(seconds * 12.5), sample_rate=RATE)
    with server.asked(body, name, window=16_384) as connection:
        heard = connection.recv(65_536)
        begun, taken = time.monotonic(), len(heard)
        while not heard.endswith(END):
            if ahead := taken / (2 * RATE) - (time.monotonic() - begun):
                time.sleep(max(0.0, ahead))
            more = connection.recv(9600)
            if not more:
                return False
            taken += len(more)
            heard = heard[-5:] + more
    return True


def test_the_next_seat_goes_to_the_other_client_and_not_to_more_of_the_first(fair: Serving) -> None:
    with ThreadPoolExecutor(8) as clients, ExitStack() as held:
        for number in range(SEATS):
            held.enter_context(fair.asked(endless(max_new_tokens=60), f"hog-running-{number}"))
        fair.until(busy)
        for number in range(5):
            held.enter_context(fair.asked(endless(max_new_tokens=30), f"hog-waiting-{number}"))
        fair.until(lambda stats: stats["requests"] == SEATS + 5)
        assert clients.submit(speak, fair, "other-client", OTHER).result().status_code == 200
        fair.wait_for("id=other-client ")
        ended = sum("id=hog-waiting" in line for line in fair.lines)
        assert ended <= SEATS  # all five came before it
    fair.until_idle()


@pytest.fixture(scope="module")
def short(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two seats and a short queue, of which one client may have three places; requests wait 8 s at most."""
    limits = {"max_running": SEATS, "max_waiting": 4, "first_sound_seconds": 8.0}
    with Serving(write_config(tmp_path_factory.mktemp("short"), pocket, limits=limits)) as server:
        yield server.ready()


def test_one_client_leaves_room_in_the_queue_for_others(short: Serving) -> None:
    with ExitStack() as held, ThreadPoolExecutor(1) as clients:
        for number in range(SEATS):
            held.enter_context(short.asked(endless(), f"hog-running-{number}", window=4096))
        until_running(short, SEATS)
        for number in range(3):
            held.enter_context(short.asked(speech(), f"hog-waiting-{number}"))
        short.until(lambda stats: stats["requests"] == SEATS + 3)
        error = check(speak(short, "hog-refused"), 429, None, "rate_limit_exceeded")
        assert "3 of 4 places" in error["message"]
        other = clients.submit(speak, short, "other-client", OTHER)
        short.until(lambda stats: stats["requests"] == SEATS + 4)
        held.close()
        assert other.result().status_code == 200
    short.until_idle()


def test_a_client_beyond_its_share_gives_a_seat_to_another_that_would_time_out(short: Serving) -> None:
    """Its streams are read as they come, so that neither is too slow; the younger one ends."""
    with ThreadPoolExecutor(SEATS) as clients, ExitStack() as held:
        hogs = []
        for number in range(SEATS):
            hogs.append(held.enter_context(short.asked(endless(), f"beyond-{number}")))
            until_running(short, number + 1)
        readers = [clients.submit(rest_of, hog) for hog in hogs]
        assert speak(short, "below-its-share", OTHER).status_code == 200
        short.wait_for(rf"id=beyond-{SEATS - 1} status=200 outcome=evicted .*error='?seat_recalled")
        assert not readers[-1].result().endswith(END)
        assert "id=beyond-0" not in "\n".join(short.lines)
        for hog in hogs:
            with suppress(OSError):
                hog.shutdown(socket.SHUT_RDWR)
    short.until_idle()


def test_live_sessions_are_bounded_for_all_and_for_one_client(fair: Serving) -> None:
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(connect(live_url(fair), open_timeout=PATIENCE))
        assert "3 of the 4 live sessions" in handshake_refused(fair, "127.0.0.1")
        held.enter_context(connect(live_url(fair), open_timeout=PATIENCE, source_address=(OTHER, 0)))
        assert "at most 4 live sessions" in handshake_refused(fair, OTHER)
        assert fair.stats()["requests"] == 0  # a session that does not speak holds no seat
    with session(fair) as live:
        say(live, TEXT)
        assert hear(live)[1][-1]["type"] == "audio.done"


def handshake_refused(server: Serving, address: str) -> str:
    with pytest.raises(InvalidStatus) as refused:
        connect(live_url(server), open_timeout=PATIENCE, source_address=(address, 0))
    response = refused.value.response
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    error = json.loads(response.body or b"")["error"]
    assert error["code"] == "rate_limit_exceeded"
    message: str = error["message"]
    return message


async def test_a_client_that_left_says_nothing_about_how_long_speech_takes() -> None:
    clock = Clock()
    admission = Admission(1, 0, clock)
    with admission.ticket("a") as ticket:
        await ticket.wait_for_turn()
        writer = ResponseWriter(taken, RequestRecord("gone"), 60.0, ticket)
        with pytest.raises(ClientDisconnected):
            await cancel_on_disconnect(disconnected, writer.write([], pieces()))
    assert admission.admitted == 0
    with admission.ticket("a") as ticket:
        ticket.request_turn()
        assert refused(admission).retry_after == 2  # as on a server that has not measured anything


async def pieces():
    while True:
        yield b"\0"
        await asyncio.sleep(0)


async def disconnected():
    return {"type": "http.disconnect"}


async def taken(message):
    """A send that never blocks."""

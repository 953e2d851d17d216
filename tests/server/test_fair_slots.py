"""Clients that block the engine or exceed their share are evicted if others wait."""

from __future__ import annotations

import asyncio
import itertools
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
from tests.server.live_client import (
    TEXT,
    live_url,
    receive_error,
    receive_first_audio,
    receive_utterance,
    send_text,
    send_utterance,
    session,
)
from tests.server.serving import (
    LOOPING,
    NO_CERTIFICATES,
    SPEECH,
    TIMEOUT,
    Serving,
    busy,
    endless,
    speech,
    write_config,
)
from tests.server.test_admission import Clock
from tests.server.test_admission import refusal as refused
from tests.server.test_bad_input import check

MAX_RUNNING = 2
RATE = 48_000
"""Sample rate in Hz. A high rate leaves less audio, in seconds, in the buffers of the operating system."""
CONTENDED_S = 1.0
END = b"0\r\n\r\n"
"""The last chunk of a complete response."""
OTHER = "127.0.0.2"
"""Another client: all of 127.0.0.0/8 is local."""


@pytest.fixture(scope="module")
def fair(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that runs two requests, one client's share being one, and evicts blocked clients soon."""
    limits = {
        "max_running": MAX_RUNNING,
        "max_live_sessions": 4,
        "contended_wait_seconds": CONTENDED_S,
        "first_sound_seconds": 20.0,
    }
    config = write_config(tmp_path_factory.mktemp("fair"), pocket, limits=limits, default_voice="serena")
    with Serving(config) as server:
        yield server.ready()


def synthesize(server: Serving, name: str, client: str = "127.0.0.1") -> httpx.Response:
    """Request one short utterance from the given local address."""
    transport = httpx.HTTPTransport(local_address=client, verify=NO_CERTIFICATES)
    with httpx.Client(base_url=server.url, transport=transport, timeout=TIMEOUT) as http:
        return http.post(SPEECH, json=speech(), headers={"X-Request-Id": name})


def until_running(server: Serving, count: int) -> None:
    server.until(lambda stats: stats["engine"]["talker_slots"] == count)


def trickle(socket: ClientConnection) -> None:
    """Send a word every 0.4 s until the session is closed."""
    with suppress(Exception):
        while True:
            send_text(socket, " word")
            time.sleep(0.4)


def test_trickling_live_sessions_are_evicted_for_a_waiting_request(fair: Serving) -> None:
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(session(fair, f"trickle-{number}", **LOOPING, max_new_tokens=4000))
            for number in range(MAX_RUNNING)
        ]
        for live in sessions:
            send_text(live, "One two three four five ")
            receive_first_audio(live)
            threading.Thread(target=trickle, args=(live,), daemon=True).start()
        assert synthesize(fair, "beside-tricklers").status_code == 200
        fair.wait_for(r"id=trickle-\d\.0 status=408 outcome=evicted .*error='?client_too_slow")
        evicted = fair.wait_for(r"id=trickle-(\d) status=408 outcome=evicted")
        error = receive_error(sessions[int(evicted.group(1))])
        assert error["code"] == "client_too_slow"
        assert "1 s are allowed" in error["message"]
        for live in sessions:
            with suppress(OSError):  # the server has closed the evicted one
                live.socket.shutdown(socket.SHUT_RDWR)
    fair.until_idle()


def test_a_live_session_that_pauses_is_kept_if_no_request_waits(fair: Serving) -> None:
    with session(fair, max_new_tokens=200) as live:
        send_text(live, "One two three four five ")
        receive_first_audio(live)
        time.sleep(2 * CONTENDED_S)
        send_utterance(live, TEXT)
        assert receive_utterance(live)[1][-1]["type"] == "audio.done"
    fair.until_idle()


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_slow_readers_are_evicted_for_a_waiting_request(fair: Serving, form: str) -> None:
    body = endless(stream_format=form, response_format="pcm", sample_rate=RATE)
    with ThreadPoolExecutor(MAX_RUNNING) as clients, ExitStack() as stack:
        slow = [
            stack.enter_context(fair.send_speech(body, f"slow-{form}-{number}", window=16_384))
            for number in range(MAX_RUNNING)
        ]
        until_running(fair, MAX_RUNNING)
        assert synthesize(fair, f"beside-slow-{form}").status_code == 200
        readers = [
            clients.submit(read_rest, each) for each in slow
        ]  # only one eviction is needed: the other stream continues
        received = next(as_completed(readers, TIMEOUT)).result()
        fair.wait_for(rf"id=slow-{form}-\d status=200 outcome=evicted .*error='?client_too_slow")
        for each in slow:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
    assert not received.endswith(END)
    if form == "sse":
        error = json.loads(received.split(b"event: error")[1].split(b"data: ")[1].split(b"\n")[0])
        assert error["error"]["code"] == "client_too_slow"
    fair.until_idle()


def read_rest(connection: socket.socket) -> bytes:
    """The rest of a response, to its end or until the connection closes."""
    received = b""
    with suppress(ConnectionError):
        while not received.endswith(END) and (more := connection.recv(1 << 20)):
            received += more
    return received


def test_real_time_readers_are_not_evicted_for_waiting_requests(fair: Serving) -> None:
    """Each reads one second of audio per second, from an engine that is always ahead of them and blocked."""
    seconds = 6.0
    with ThreadPoolExecutor(MAX_RUNNING + 1) as clients:
        paced = [clients.submit(read_in_real_time, fair, f"paced-{number}", seconds) for number in range(MAX_RUNNING)]
        fair.until(lambda stats: stats["requests"] == MAX_RUNNING)
        waiting = clients.submit(synthesize, fair, "beside-paced")
        assert all(each.result() for each in paced)
        assert waiting.result().status_code == 200
    for number in range(MAX_RUNNING):
        fair.wait_for(rf"id=paced-{number} status=200 outcome=completed")
    fair.until_idle()


def read_in_real_time(server: Serving, name: str, seconds: float) -> bool:
    """Read at playback speed; return whether the stream was complete."""
    body = endless(max_new_tokens=int(seconds * 12.5), sample_rate=RATE)
    with server.send_speech(body, name, window=16_384) as connection:
        received = connection.recv(65_536)
        start, total = time.monotonic(), len(received)
        while not received.endswith(END):
            if ahead := total / (2 * RATE) - (time.monotonic() - start):
                time.sleep(max(0.0, ahead))
            more = connection.recv(9600)
            if not more:
                return False
            total += len(more)
            received = received[-5:] + more
    return True


def test_the_next_place_goes_to_the_other_client(fair: Serving) -> None:
    with ThreadPoolExecutor(8) as clients, ExitStack() as stack:
        for number in range(MAX_RUNNING):
            stack.enter_context(fair.send_speech(endless(max_new_tokens=240), f"hog-running-{number}"))
        fair.until(busy)
        for number in range(5):
            stack.enter_context(fair.send_speech(endless(max_new_tokens=120), f"hog-waiting-{number}"))
        fair.until(lambda stats: stats["requests"] == MAX_RUNNING + 5)
        assert clients.submit(synthesize, fair, "other-client", OTHER).result().status_code == 200
        fair.wait_for("id=other-client ")
        before = itertools.takewhile(lambda line: "id=other-client " not in line, fair.lines)
        ended = sum("id=hog-waiting" in line for line in before)
        assert ended <= MAX_RUNNING  # all five were queued before it
    fair.until_idle()


@pytest.fixture(scope="module")
def short_queue(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that runs two requests and queues four, three per client, for at most 8 s."""
    limits = {"max_running": MAX_RUNNING, "max_waiting": 4, "first_sound_seconds": 8.0}
    with Serving(write_config(tmp_path_factory.mktemp("short-queue"), pocket, limits=limits)) as server:
        yield server.ready()


def test_one_client_leaves_room_in_the_queue_for_others(short_queue: Serving) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(1) as clients:
        for number in range(MAX_RUNNING):
            stack.enter_context(short_queue.send_speech(endless(), f"hog-running-{number}", window=4096))
        until_running(short_queue, MAX_RUNNING)
        for number in range(3):
            stack.enter_context(short_queue.send_speech(speech(), f"hog-waiting-{number}"))
        short_queue.until(lambda stats: stats["requests"] == MAX_RUNNING + 3)
        error = check(synthesize(short_queue, "hog-refused"), 429, None, "rate_limit_exceeded")
        assert "3 of 4 waiting requests" in error["message"]
        other = clients.submit(synthesize, short_queue, "other-client", OTHER)
        short_queue.until(lambda stats: stats["requests"] == MAX_RUNNING + 4)
        stack.close()
        assert other.result().status_code == 200
    short_queue.until_idle()


def test_a_client_beyond_its_share_is_evicted_before_another_times_out(short_queue: Serving) -> None:
    """Both streams are read at full speed, so neither is too slow; the newer one is evicted."""
    with ThreadPoolExecutor(MAX_RUNNING) as clients, ExitStack() as stack:
        hogs = []
        for number in range(MAX_RUNNING):
            hogs.append(stack.enter_context(short_queue.send_speech(endless(), f"beyond-{number}")))
            until_running(short_queue, number + 1)
        readers = [clients.submit(read_rest, hog) for hog in hogs]
        assert synthesize(short_queue, "below-its-share", OTHER).status_code == 200
        short_queue.wait_for(rf"id=beyond-{MAX_RUNNING - 1} status=200 outcome=evicted .*error='?seat_recalled")
        assert not readers[-1].result().endswith(END)
        assert "id=beyond-0" not in "\n".join(short_queue.lines)
        for hog in hogs:
            with suppress(OSError):
                hog.shutdown(socket.SHUT_RDWR)
    short_queue.until_idle()


def test_live_sessions_are_limited_in_total_and_per_client(fair: Serving) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(live_url(fair), open_timeout=TIMEOUT))
        assert "3 of the 4 live sessions" in refused_handshake(fair, "127.0.0.1")
        stack.enter_context(connect(live_url(fair), open_timeout=TIMEOUT, source_address=(OTHER, 0)))
        assert "at most 4 live sessions" in refused_handshake(fair, OTHER)
        assert fair.stats()["requests"] == 0  # an idle session has no admission ticket
    with session(fair) as live:
        send_utterance(live, TEXT)
        assert receive_utterance(live)[1][-1]["type"] == "audio.done"


def refused_handshake(server: Serving, address: str) -> str:
    with pytest.raises(InvalidStatus) as refused:
        connect(live_url(server), open_timeout=TIMEOUT, source_address=(address, 0))
    response = refused.value.response
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    error = json.loads(response.body or b"")["error"]
    assert error["code"] == "rate_limit_exceeded"
    message: str = error["message"]
    return message


async def test_a_disconnected_request_does_not_change_retry_after() -> None:
    clock = Clock()
    admission = Admission(1, 0, clock)
    with admission.ticket("a") as ticket:
        await ticket.wait_until_running()
        writer = ResponseWriter(send, RequestRecord("gone"), 60.0, ticket)
        with pytest.raises(ClientDisconnected):
            await cancel_on_disconnect(disconnected, writer.write([], pieces()))
    assert admission.ticket_count == 0
    with admission.ticket("a") as ticket:
        ticket.request_start()
        assert refused(admission).retry_after == 2  # the default before anything is measured


async def pieces():
    while True:
        yield b"\0"
        await asyncio.sleep(0)


async def disconnected():
    return {"type": "http.disconnect"}


async def send(message):
    """An ASGI send that never blocks."""

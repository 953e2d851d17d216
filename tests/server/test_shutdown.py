"""Graceful shutdown of ``sonant serve``."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.client import ClientProtocol
from websockets.protocol import State
from websockets.uri import parse_uri

from tests.server.live_client import (
    CONFIG,
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
    SPEECH,
    TIMEOUT,
    ScriptedServing,
    Serving,
    endless,
    speech,
    streamed,
    write_config,
)
from tests.server.test_bad_input import check
from tests.server.test_live_refusals import parse_error, refused_handshake
from tests.server.test_sse import parse_events

SERVICE_RESTART = 1012
STREAM_FORMATS = ("audio", "sse")


def exited_cleanly(server: Serving) -> bool:
    """Whether the process exited with 0 and logged no error."""
    exit_code = server.process.wait(TIMEOUT)
    return exit_code == 0 and not [line for line in server.lines if re.search("Traceback|Exception|Error|Abort", line)]


def test_sigint_stops_quietly_and_leaves_no_process(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server:
        family = server.processes().all
        server.process.send_signal(signal.SIGINT)
        assert exited_cleanly(server)
    gone, alive = psutil.wait_procs(family, TIMEOUT)
    assert not alive
    assert len(gone) == len(family)


def test_running_utterances_are_completed_before_the_stop(pocket: Path, tmp_path: Path) -> None:
    """Also live ones, whose clients then receive an error "stopped". An incomplete request does not delay the stop.

    SIGTERM goes to every process of the service, and must count once.
    """
    body = endless(max_new_tokens=150)
    config = write_config(tmp_path, pocket, limits={"drain_seconds": 3600})
    with Serving(config).ready() as server, ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(2)]
        alone = clients[0].post(SPEECH, json=body).content
        half = stack.enter_context(server.send_speech({}, "half", of=0.5))
        live, idle = (stack.enter_context(session(server, **LOOPING, max_new_tokens=150)) for _ in range(2))
        streams = [
            stack.enter_context(streamed(client, {**body, "stream_format": form})).iter_raw()
            for client, form in zip(clients, STREAM_FORMATS, strict=True)
        ]
        first_pieces = [next(pieces) for pieces in streams]
        send_utterance(live, TEXT)
        start = receive_first_audio(live)
        for process in server.processes().all:  # as a service manager does
            process.terminate()
        server.wait_for(r"3 utterances in flight may finish within .*; Ctrl-C stops now")
        for form, first, pieces in zip(STREAM_FORMATS, first_pieces, streams, strict=True):
            assert audio_of(first + b"".join(pieces), form) == alone
        rest, events = receive_utterance(live)
        assert events[-1]["type"] == "audio.done"
        assert len(start + rest) == events[-1]["usage"]["output_tokens"] * 1920 * 2
        for each in (live, idle):
            assert receive_error(each, SERVICE_RESTART)["code"] == "stopped"
        assert half.recv(12) == b""
        assert exited_cleanly(server)


def audio_of(body: bytes, form: str) -> bytes:
    """The audio of a complete body; asserts that an event stream ended with its done event."""
    if form == "audio":
        return body
    *deltas, last = parse_events(body.decode().splitlines())
    assert last["type"] == "speech.audio.done"
    return b"".join(base64.b64decode(delta["audio"]) for delta in deltas)


def test_a_draining_server_refuses_requests_until_the_last_one_ends(pocket: Path, tmp_path: Path) -> None:
    with ScriptedServing(write_config(tmp_path, pocket)).ready() as server, server.client() as client:
        with server.send_speech(endless(), "last", window=4096) as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
            server.process.terminate()
            server.wait_for(r"1 utterance in flight may finish")
            for refused in (client.get("/ready"), client.post(SPEECH, json=speech())):
                check(refused, 503, None, "draining")
                assert int(refused.headers["retry-after"]) > 0
            assert client.get("/health").status_code == 200
            assert 'sonant_requests_running{model="pocket"} 1.0' in client.get("/metrics").text
        assert server.process.wait(TIMEOUT) == 0
    server.wait_for(r"id=last status=499")


def test_queued_requests_are_served_before_the_stop(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, limits={"max_running": 1})
    with ScriptedServing(config).ready() as server, server.client() as client:
        alone = client.post(SPEECH, json=speech()).content
        with (
            ThreadPoolExecutor(1) as others,
            server.send_speech(endless(), "first", window=4096) as connection,
        ):
            assert connection.recv(12) == b"HTTP/1.1 200"
            waiting = others.submit(httpx.post, server.url + SPEECH, json=speech(), timeout=TIMEOUT)
            server.until(lambda stats: stats["requests"] == 2)
            server.process.terminate()
            server.wait_for(r"2 utterances in flight may finish")
            connection.close()
            assert waiting.result().content == alone
        assert server.process.wait(TIMEOUT) == 0


@contextmanager
def stalled_session(server: Serving) -> Iterator[None]:
    """A live session whose client reads nothing, not even the close frame."""
    client = ClientProtocol(parse_uri(live_url(server)))
    client.send_request(client.connect())
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(TIMEOUT)
        connection.connect((client.uri.host, client.uri.port))
        connection.sendall(b"".join(client.data_to_send()))
        while client.state is not State.OPEN:
            client.receive_data(connection.recv(4096))
        for message in (CONFIG | LOOPING | {"max_new_tokens": 4000}, {"type": "input.text", "text": TEXT}):
            client.send_text(json.dumps(message).encode())
        connection.sendall(b"".join(client.data_to_send()))
        yield


def test_utterances_that_exceed_the_drain_time_are_cancelled(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, limits={"drain_seconds": 0.5})
    with Serving(config).ready() as server, server.send_speech(endless(), "long", window=4096) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        with stalled_session(server), session(server, "live", **LOOPING, max_new_tokens=4000) as live:
            send_text(live)
            receive_first_audio(live)
            server.until(lambda stats: stats["requests"] == 3)
            server.process.terminate()
            server.wait_for(r"3 utterances in flight cancelled")
            assert receive_error(live, SERVICE_RESTART)["code"] == "stopped"
            assert exited_cleanly(server)
    for name in ("long", "live", "live.0"):
        server.wait_for(rf"id={name} .*error=stopped")


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_at_once(pocket: Path, tmp_path: Path, signal_number: signal.Signals) -> None:
    with Serving(write_config(tmp_path, pocket)).ready() as server, ExitStack() as stack:
        whole = stack.enter_context(server.send_speech(endless(stream=False), "whole"))
        live, late = (
            stack.enter_context(session(server, name, **LOOPING, max_new_tokens=4000)) for name in ("cut", "late")
        )
        send_text(live)
        receive_first_audio(live)
        streams = []
        for form in STREAM_FORMATS:
            client = stack.enter_context(server.client())
            response = stack.enter_context(streamed(client, endless(stream_format=form), **{"X-Request-Id": form}))
            streams.append(response.iter_raw())
            assert next(streams[-1])
        server.until(lambda stats: stats["requests"] == 4)
        server.process.send_signal(signal_number)
        server.wait_for(r"4 utterances in flight may finish")
        refused = refused_handshake(server)
        assert (refused.status_code, parse_error(refused)["code"]) == (503, "draining")
        assert int(refused.headers["Retry-After"]) > 0
        send_text(late)
        assert receive_error(late, SERVICE_RESTART)["code"] == "draining"
        server.process.send_signal(signal_number)
        for pieces in streams:
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        assert whole.recv(12) == b"HTTP/1.1 503"
        assert receive_error(live, SERVICE_RESTART)["code"] == "stopped"
        assert exited_cleanly(server)
    for name in (*STREAM_FORMATS, "whole", "cut", "cut.0"):
        server.wait_for(rf"id={name} .*error=stopped")

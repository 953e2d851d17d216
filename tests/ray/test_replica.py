"""One replica behind HAProxy, with the settings of ``deploy/ray``: requests, disconnects, keys, and its start."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from server.ray.replica_app import REPLICA_HEADER
from tests.ray.cluster import KEY, START_TIMEOUT, Cluster, Replica
from tests.server.live_client import receive_first_audio, receive_utterance, send_messages, send_utterance
from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, TIMEOUT, endless, speech, streamed

ONE_RUNS = {"max_running": 1, "max_waiting": 4, "client_share": 1.0, "stalled_seconds": 2.0}


@pytest.fixture(scope="module")
def replica(cluster: Cluster) -> Replica:
    cluster.deploy(1, limits=ONE_RUNS)
    return cluster.until_running(1)[0]


@pytest.fixture
def client(cluster: Cluster, replica: Replica) -> Iterator[httpx.Client]:
    with cluster.client() as client:
        yield client


def outcome(client: httpx.Client, name: str, timeout: float = TIMEOUT) -> dict[str, Any]:
    """The outcome of a request that has ended."""
    deadline = time.monotonic() + timeout
    while True:
        response = client.get(f"{SPEECH}/{name}")
        if response.status_code == 200 and response.json()["outcome"] != "running":
            fields: dict[str, Any] = response.json()
            return fields
        assert time.monotonic() < deadline, response.text
        time.sleep(0.05)


def until_requests(replica: Replica, count: int) -> None:
    """Wait until the replica has ``count`` running and queued requests."""
    deadline = time.monotonic() + TIMEOUT
    while (stats := replica.stats())["requests"] != count:
        assert time.monotonic() < deadline, stats
        time.sleep(0.02)


@contextmanager
def speaking(client: httpx.Client, name: str) -> Iterator[Iterator[bytes]]:
    """The pieces of a response that does not end by itself, of which the first has arrived."""
    with streamed(client, endless(), **{"X-Request-Id": name}) as response:
        assert response.status_code == 200
        pieces = response.iter_raw()
        assert next(pieces)
        yield pieces


def test_a_running_replica_is_ready(replica: Replica) -> None:
    """Ray reports a replica as running only after its engine is ready."""
    assert replica.stats()["status"] == "ready"


def test_chunks_arrive_one_by_one(client: httpx.Client, replica: Replica) -> None:
    with speaking(client, "chunks") as pieces:
        assert len(next(pieces)) < 100_000
        assert client.get(f"{SPEECH}/chunks").json()["outcome"] == "running"
    assert outcome(client, "chunks")["outcome"] == "client_left"


def test_a_complete_response_has_one_request_id_and_names_the_replica(client: httpx.Client, replica: Replica) -> None:
    response = client.post(SPEECH, json=speech(), headers={"X-Request-Id": "complete"})
    assert response.status_code == 200
    assert response.headers.get_list("X-Request-Id") == ["complete"]
    assert response.headers[REPLICA_HEADER] == replica.id
    assert outcome(client, "complete")["outcome"] == "completed"
    unnamed = client.get("/v1/models")
    assert len(unnamed.headers.get_list("X-Request-Id")) == 1


def test_a_client_that_leaves_after_the_first_byte_frees_its_slot(client: httpx.Client, replica: Replica) -> None:
    with speaking(client, "left-speaking"):
        pass
    until_requests(replica, 0)
    assert outcome(client, "left-speaking")["outcome"] == "client_left"


def test_a_client_that_leaves_before_the_first_byte_frees_its_place(
    cluster: Cluster, client: httpx.Client, replica: Replica
) -> None:
    with speaking(client, "runs"):
        with sent(cluster, "left-waiting", speech()):
            until_requests(replica, 2)
        until_requests(replica, 1)
        assert outcome(client, "left-waiting")["outcome"] == "client_left"
    until_requests(replica, 0)


@contextmanager
def sent(cluster: Cluster, name: str, fields: dict[str, Any], window: int | None = None) -> Iterator[None]:
    """Send a request for speech, read nothing of the response, and disconnect. window: receive buffer in bytes."""
    body = json.dumps(fields).encode()
    head = (
        f"POST {SPEECH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\nX-Request-Id: {name}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as connection:
        if window is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        connection.connect(("127.0.0.1", cluster.port))
        connection.sendall(head.encode() + body)
        yield


def test_a_client_that_stops_reading_loses_its_slot(cluster: Cluster, client: httpx.Client, replica: Replica) -> None:
    """Sockets and HAProxy buffer 7 MB before the replica notices, so the audio has the highest sample rate."""
    with sent(cluster, "stalled", endless(sample_rate=48_000), window=4096):
        ended = outcome(client, "stalled", START_TIMEOUT)
    assert (ended["outcome"], ended["status"]) == ("client_left", 499)
    until_requests(replica, 0)


def test_a_full_queue_is_refused_with_retry_after(cluster: Cluster, client: httpx.Client, replica: Replica) -> None:
    with ExitStack() as stack:
        stack.enter_context(speaking(client, "first"))
        for number in range(ONE_RUNS["max_waiting"]):
            stack.enter_context(sent(cluster, f"queued-{number}", speech()))
        until_requests(replica, 1 + ONE_RUNS["max_waiting"])
        refused = client.post(SPEECH, json=speech())
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(refused.headers["Retry-After"]) > 0
    until_requests(replica, 0)


def test_requests_need_the_key(cluster: Cluster, replica: Replica) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        refused = httpx.post(f"{cluster.url}{SPEECH}", json=speech(), headers=headers, timeout=TIMEOUT)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")


def test_a_live_session_speaks_and_ends_when_the_client_leaves(cluster: Cluster, replica: Replica) -> None:
    url = cluster.url.replace("http", "ws") + SPEECH + "/stream"
    with connect(url, additional_headers=cluster.headers, open_timeout=TIMEOUT) as session:
        assert session.response is not None
        assert session.response.headers[REPLICA_HEADER] == replica.id
        config = {"type": "session.config", "response_format": "pcm", "max_new_tokens": 24}
        send_messages(session, config)
        send_utterance(session, "Hello there.")
        audio, _ = receive_utterance(session)
        assert len(audio) > 1000
        send_utterance(session, "This is read for a while, because it is long. " * 4)
        assert receive_first_audio(session)
    until_requests(replica, 0)


def test_a_recording_is_decoded_and_cloned(client: httpx.Client, replica: Replica) -> None:
    """The decoder is a process that the event loop of the replica starts."""
    body = speech(task_type="Base", ref_audio=data_url(tone(4.0)), x_vector_only_mode=True)
    response = client.post(SPEECH, json=body)
    assert response.status_code == 200, response.text
    assert len(response.content) > 1000


def test_a_deployment_that_cannot_start_leaves_the_old_replica(
    cluster: Cluster, client: httpx.Client, replica: Replica
) -> None:
    for settings, message in (
        ({"keys_file": None}, "allow_unauthenticated: true"),
        ({"engine": {"model": "/missing"}}, "/missing"),
    ):
        cluster.deploy(1, limits=ONE_RUNS, **settings)
        assert message in cluster.until_failed()
        assert client.post(SPEECH, json=speech()).headers[REPLICA_HEADER] == replica.id

"""Several replicas: affinity, updates, killed replicas and nodes, a lost engine, and autoscaling."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from engine.protocol.request import SAMPLES_PER_FRAME
from server.ray.replica_app import REPLICA_HEADER
from tests.ray.cluster import Cluster, Replica
from tests.server.serving import SPEECH, TIMEOUT, endless, speech, streamed

LIMITS = {"max_waiting": 4, "client_share": 1.0}
MAX_VOICES = 40
"""Voices after which both replicas were selected, with near certainty."""


@pytest.fixture
def two(cluster: Cluster) -> list[Replica]:
    cluster.deploy(2, limits=LIMITS)
    return cluster.until_running(2)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[httpx.Client]:
    with cluster.client() as client:
        yield client


def speak(client: httpx.Client, **headers: str) -> str:
    """Send a short request, and return the id of the replica that answered."""
    response = client.post(SPEECH, json=speech(), headers=headers)
    assert response.status_code == 200, response.text
    return str(response.headers[REPLICA_HEADER])


class Stream:
    """A response that does not end by itself. replica: the id of the replica that sends it."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.status_code == 200
        self.replica = str(response.headers[REPLICA_HEADER])
        self._pieces = response.iter_raw()
        self.read()

    def read(self) -> None:
        assert next(self._pieces)

    def until_broken(self) -> None:
        with pytest.raises(httpx.HTTPError):
            while True:
                next(self._pieces)


@contextmanager
def streams_of(cluster: Cluster, replicas: list[Replica]) -> Iterator[dict[str, Stream]]:
    """One stream of each replica, by the id of the replica."""
    with ExitStack() as stack:
        streams: dict[str, Stream] = {}
        while len(streams) < len(replicas):
            client = stack.enter_context(cluster.client())
            stream = Stream(stack.enter_context(streamed(client, endless())))
            streams.setdefault(stream.replica, stream)
        yield streams


class Requests:
    """Short requests in ``clients`` threads, one after another in each, until the context ends. All must succeed."""

    def __init__(self, cluster: Cluster, clients: int = 1) -> None:
        self.failures: list[Any] = []
        self.replicas: list[str] = []
        self._cluster, self._stop = cluster, threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def _run(self) -> None:
        with self._cluster.client() as client:
            while not self._stop.is_set():
                try:
                    self.replicas.append(speak(client))
                except (httpx.HTTPError, AssertionError) as error:
                    self.failures.append(error)

    def __enter__(self) -> Requests:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT)
        assert not any(thread.is_alive() for thread in self._threads)


def test_requests_for_a_voice_use_one_replica(client: httpx.Client, two: list[Replica]) -> None:
    replicas: dict[str, str] = {}
    while len({*replicas.values()}) < 2 and len(replicas) < MAX_VOICES:
        voice = f"voice-{len(replicas)}"
        replicas[voice] = speak(client, **{"X-Sonant-Voice": voice})
    assert {*replicas.values()} == {each.id for each in two}
    for voice, replica in replicas.items():
        assert speak(client, **{"X-Sonant-Voice": voice}) == replica


def test_an_update_loses_no_request(cluster: Cluster, two: list[Replica]) -> None:
    """The stream is too long for the buffers on its way, so its replica finishes it after others have started."""
    frames = 1300
    old = {each.id for each in two}
    with Requests(cluster) as requests, cluster.client() as client:
        with streamed(client, endless(max_new_tokens=frames)) as response:
            pieces = response.iter_raw()
            audio = len(next(pieces))
            cluster.deploy(2, limits={**LIMITS, "max_waiting": 5})
            new = cluster.until(
                lambda: {each.id for each in cluster.replicas() if each.id not in old} or None, "no replica is new"
            )
            cluster.until(lambda: new.intersection(requests.replicas[-1:]) or None, "new replicas get no requests")
            audio += sum(map(len, pieces))
        new = {each.id for each in cluster.until_running(2)}
    assert requests.failures == []
    assert new.isdisjoint(old)
    assert audio == (frames - 1) * SAMPLES_PER_FRAME * 2  # the last step ends the utterance


def test_a_lost_engine_costs_no_new_request(cluster: Cluster, client: httpx.Client, two: list[Replica]) -> None:
    """Its replica answers 503 until the engine is back, and HAProxy asks the other replica."""
    engine = two[0].engine
    engine.send_signal(signal.SIGKILL)
    engine.wait(TIMEOUT)
    for _ in range(6):
        speak(client)
    assert {each.id for each in cluster.until_running(2)} == {each.id for each in two}


def test_a_killed_replica_breaks_only_its_streams(cluster: Cluster, client: httpx.Client, two: list[Replica]) -> None:
    with streams_of(cluster, two) as streams:
        engine = two[0].engine
        os.kill(two[0].pid, signal.SIGKILL)
        streams[two[0].id].until_broken()
        assert speak(client) == two[1].id
        streams[two[1].id].read()
        engine.wait(TIMEOUT)
    cluster.until(
        lambda: two[0].id not in {each.id for each in cluster.replicas()} or None, "Ray keeps the killed replica"
    )
    cluster.until_running(2)


def test_a_killed_node_breaks_only_its_streams(cluster: Cluster, client: httpx.Client) -> None:
    cluster.deploy(3, limits=LIMITS)
    cluster.until_running(3)
    node = cluster.add_node(cpus=1)
    try:
        cluster.deploy(4, limits=LIMITS)
        four = cluster.until_running(4)
        [head] = {each.node for each in four if sum(other.node == each.node for other in four) == 3}
        [lost] = [each for each in four if each.node != head]
        with streams_of(cluster, four) as streams:
            engine = lost.engine
            node.kill()
            streams[lost.id].until_broken()
            assert speak(client) != lost.id
            for replica, stream in streams.items():
                if replica != lost.id:
                    stream.read()
            engine.wait(TIMEOUT)
    finally:
        node.kill()


def test_replicas_follow_the_requests(cluster: Cluster) -> None:
    """A replica runs two requests at once. So four clients need two replicas, and one client needs one.

    All requests succeed, also those that the stopped replica gets until the load balancer knows that it stops.
    """
    scaler = {"min_replicas": 1, "max_replicas": 2, "upscale_delay_s": 0, "downscale_delay_s": 1}
    cluster.deploy(scaler, limits={**LIMITS, "max_running": 2})
    [first] = cluster.until_running(1)
    with Requests(cluster) as one:
        with Requests(cluster, clients=3) as three:
            both = cluster.until_running(2)
            [added] = {each.id for each in both} - {first.id}
            cluster.until(lambda: added in three.replicas or None, "the new replica gets no requests")
        [kept] = cluster.until_running(1)
        count = len(one.replicas)
        cluster.until(lambda: len(one.replicas) > count or None, "the remaining replica gets no requests")
    assert kept.id in {first.id, added}
    assert one.failures == three.failures == []

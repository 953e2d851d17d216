"""The application in a replica of Ray Serve, which cancels the tasks of clients that disconnect."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.ray import replica_app
from server.ray.replica_app import ReplicaApp
from server.ray.scaling import SeatUtilization

HTTP: Scope = {"type": "http", "headers": [(b"x-request-id", b"mine")]}


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def sent_by(app: ASGIApp, scope: Scope) -> list[Message]:
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    await ReplicaApp(app, "replica")(scope, never, send)
    return messages


@pytest.mark.parametrize(
    ("scope", "disconnect"), [(HTTP, "http.disconnect"), ({"type": "websocket", "headers": []}, "websocket.disconnect")]
)
async def test_a_cancelled_request_is_a_client_that_disconnects(scope: Scope, disconnect: str) -> None:
    received: list[str] = []
    started = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        started.set()
        received.append((await receive())["type"])
        received.append((await receive())["type"])

    request = asyncio.create_task(sent_by(app, scope))
    await started.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert received == [disconnect, disconnect]


async def test_a_request_that_ignores_the_disconnect_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_app, "_END_SECONDS", 0.01)
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    request = asyncio.create_task(sent_by(app, HTTP))
    await started.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    await cancelled.wait()


async def test_messages_and_errors_pass() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"text"}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["body"] == b"text"
        raise KeyError("unexpected")

    with pytest.raises(KeyError, match="unexpected"):
        await ReplicaApp(app, "replica")(HTTP, receive, lambda message: asyncio.sleep(0))


@pytest.mark.parametrize(("own", "kept"), [(b"mine", []), (b"other", [(b"x-request-id", b"other")])])
async def test_the_response_names_the_replica_and_leaves_out_the_id_that_ray_adds(own: bytes, kept: list[Any]) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-request-id", own)]})

    [start] = await sent_by(app, HTTP)
    assert start["headers"] == [*kept, (b"x-sonant-replica", b"replica")]


class Context:
    """The part of Ray's AutoscalingContext that the policy uses."""

    target_num_replicas = 3

    def __init__(self, requests: list[float], seats: list[float]) -> None:
        self.aggregated_metrics = {"requests": dict(enumerate(requests)), "seats": dict(enumerate(seats))}


@pytest.mark.parametrize(
    ("requests", "seats", "replicas"),
    [
        ([0.0], [8.0], 0),
        ([6.0], [8.0], 1),
        ([7.0], [8.0], 2),
        ([8.0, 20.0], [8.0, 8.0], 5),
        ([8.0, 8.0], [8.0, 0.0], 3),
        ([], [], 3),
    ],
)
def test_replicas_follow_running_and_queued_requests(requests: list[float], seats: list[float], replicas: int) -> None:
    assert SeatUtilization(0.75)(Context(requests, seats)) == (replicas, {})  # type: ignore[arg-type]


def test_a_target_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got 1\.5"):
        SeatUtilization(1.5)

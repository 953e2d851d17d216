"""Large responses: back-pressure, a memory budget and a minimum rate."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.http.body_budget import SMALL_BODY_BYTES, BodyBudget
from server.http.response_pacing import ResponsePacing
from server.telemetry.record import RequestRecord

LARGE = 5 * SMALL_BODY_BYTES + 1


async def respond(size: int, budget: BodyBudget, send: Send, grace: float = 60.0) -> RequestRecord:
    """Respond with ``size`` bytes through the ASGI callable ``send``."""
    record = RequestRecord("r")
    scope: dict[str, Any] = {"type": "http", "method": "GET", "client": ("192.0.2.7", 1), "state": {"record": record}}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"a" * size)(scope, Request(scope).receive, send)

    await ResponsePacing(app, budget, grace)(scope, None, send)
    return record


@pytest.mark.parametrize("size", [0, SMALL_BODY_BYTES, SMALL_BODY_BYTES + 1, LARGE])
async def test_a_body_is_sent_completely_in_small_pieces(size: int) -> None:
    budget, sent, budget_used = BodyBudget(10 * LARGE, 1.0), [], []

    async def send(message: Message) -> None:
        sent.append(message)
        budget_used.append(budget.used)

    await respond(size, budget, send)
    start, *bodies = sent
    assert start["status"] == 200
    assert sum(len(each["body"]) for each in bodies) == size
    assert max(len(each["body"]) for each in bodies) <= SMALL_BODY_BYTES
    assert [each.get("more_body", False) for each in bodies] == [True] * (len(bodies) - 1) + [False]
    assert budget.used == 0
    assert max(budget_used) == (size if size > SMALL_BODY_BYTES else 0)


async def test_a_body_beyond_the_budget_is_a_503() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    record = await respond(LARGE, BodyBudget(LARGE - 1, 1.0), send)
    assert (sent[0]["status"], record.failure) == (503, "server_busy")
    assert b"max_bodies_bytes" in sent[1]["body"]


async def test_a_client_that_reads_too_slowly_is_disconnected() -> None:
    budget, sent = BodyBudget(10 * LARGE, 1.0), []

    async def send(message: Message) -> None:
        sent.append(message)
        if len(sent) == 3:
            await asyncio.Event().wait()

    record = await respond(LARGE, budget, send, grace=-LARGE / (32 * 1024) + 0.1)
    assert record.failure == "client_left"
    assert len(sent) == 3
    assert budget.used == 0

"""The internals of uvicorn and h11 that ``HttpConnection`` and ``WebSocketConnection`` rely on.

They are not public. If a new uvicorn changes one, this test names it; other tests cover the behavior.
"""

from __future__ import annotations

import inspect

import h11
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from server.http.body_budget import BodyBudget
from server.http.connection_table import ConnectionTable
from server.http.connections import connections
from server.http.websockets import websocket_connections

HOOKS = [
    (H11Protocol, ["on_response_complete", "send_400_response", "_should_upgrade", "handle_events"]),
    (WebSocketsSansIOProtocol, ["handle_ping", "handle_parser_exception", "send_receive_event_to_app"]),
    (uvicorn.Server, ["startup", "shutdown", "on_tick", "handle_exit"]),
]


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that does nothing."""


@pytest.mark.parametrize(("owner", "names"), HOOKS, ids=lambda each: getattr(each, "__name__", ""))
def test_overridden_and_called_methods_exist(owner: type, names: list[str]) -> None:
    assert [name for name in names if not callable(getattr(owner, name, None))] == []


async def test_a_connection_has_the_attributes_that_the_server_reads() -> None:
    table, budget = ConnectionTable(16, 1.0), BodyBudget(1024, 1.0)
    config = uvicorn.Config(_app, log_config=None)
    http = connections(1.0, table)(config, ServerState(), {})
    live = websocket_connections(table, budget)(config, ServerState(), {})
    for connection, names in (
        (http, ["transport", "cycle", "client", "loop", "flow"]),
        (live, ["transport", "client", "queue", "writable", "close_sent", "close_timer", "handshake_complete"]),
    ):
        assert [name for name in names if name not in vars(connection)] == []


def test_responses_use_the_replaced_connection_and_application() -> None:
    source = inspect.getsource(H11Protocol.handle_events)
    for used in ("app = self.app", "scope=self.scope", "conn=self.conn", "on_response=self.on_response_complete"):
        assert used in source
    source_of_cycle = inspect.getsource(RequestResponseCycle)
    for name in ("scope", "response_started", "response_complete", "disconnected", "message_event"):
        assert f"self.{name} = " in source_of_cycle


def test_h11_writes_every_event_through_the_method_that_adds_trailers() -> None:
    assert "send_with_data_passthrough" in inspect.getsource(h11.Connection.send)

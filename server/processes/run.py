"""Runs an HTTP process of ``sonant serve`` until it is stopped: the main one, or an additional one."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable

import typer
import uvicorn
from fastapi import FastAPI

from server.app import create_app
from server.cli.console import plain_errors
from server.http.additional_processes import AdditionalProcesses
from server.http.address_file import url_of
from server.http.child_process import MAIN_ENDED, Heartbeat
from server.http.connection_table import ConnectionTable
from server.http.connections import http_protocol_class
from server.http.descriptors import ACCEPT_BATCH, connection_capacity, raise_descriptor_limit
from server.http.response_framing import ResponseFraming
from server.http.shutdown import Server
from server.http.websockets import websocket_protocol_class
from server.listeners.opening import Sockets, create_listeners
from server.processes.peers import Role
from server.reload.applied import AppliedSettings
from server.reload.reloader import Reload
from server.settings import Settings

_KEEP_ALIVE_SECONDS = 30
"""Keep-alive timeout. Longer than that of clients (httpx: 5 s), so that no client writes to a connection that the
server has just closed."""


def run_main(
    applied: AppliedSettings,
    load: Callable[[], Settings],
    sockets: Sockets,
    report: Callable[[str], None],
    additional: AdditionalProcesses,
    heartbeat: Heartbeat,
) -> int:
    """Run the main HTTP process, which runs the engines. Return its exit code: 1 if an engine could not start.

    applied: the settings to use. load: reads them again, for a reload. report: is called with messages for the
    operator. additional: the other HTTP processes.
    """
    settings = _of_process(applied.get())
    failed = False

    def stop() -> None:
        nonlocal failed
        failed = server.should_exit = True

    def ready() -> None:
        heartbeat.engine_ready()
        report(f"Sonant serves {model_names(settings)} on {url_of(sockets.http)}")

    open_connections = _connection_table(settings)
    try:
        with plain_errors("sonant serve"):
            app = create_app(
                settings,
                on_engine_ready=ready,
                on_engine_failure=stop,
                listeners=create_listeners(settings, sockets, open_connections),
                reload=Reload(load, applied.set),
                role=Role(arrivals=additional.arrivals),
            )
    except typer.Exit as error:
        return error.exit_code
    server = _server(app, settings, open_connections, report, heartbeat)
    server.run([sockets.http])
    return int(failed)


def run_additional(
    applied: AppliedSettings,
    sockets: Sockets,
    report: Callable[[str], None],
    main: socket.socket,
    listener: socket.socket,
    heartbeat: Heartbeat,
) -> int:
    """Run an additional HTTP process, which uses the engines of the main one. Return its exit code.

    It ends with the main process. applied: the settings to use. sockets: those of the main process. report: is called
    with messages for the operator. main: the connection to the main process. listener: where it accepts connections.
    """
    for other in sockets.all:
        other.close()
    settings = _of_process(applied.get())
    app = create_app(settings, role=Role(main=main, on_main_lost=lambda: os._exit(MAIN_ENDED)))
    _server(app, settings, _connection_table(settings), report, heartbeat).run([listener])
    return 0


def model_names(settings: Settings) -> str:
    """Return the names of the served models."""
    return ", ".join(model.name for model in settings.all_models)


def _of_process(settings: Settings) -> Settings:
    """Return ``settings`` with the limits of one of the HTTP processes."""
    return settings.model_copy(update={"limits": settings.limits.of_process(settings.http_processes)})


def _connection_table(settings: Settings) -> ConnectionTable:
    limits = settings.limits
    capacity = connection_capacity(limits.max_connections, raise_descriptor_limit())
    if limits.max_connections is None:
        capacity = math.ceil(capacity / settings.http_processes)
    return ConnectionTable(capacity, limits.connection_share)


def _server(
    app: FastAPI,
    settings: Settings,
    open_connections: ConnectionTable,
    report: Callable[[str], None],
    heartbeat: Heartbeat,
) -> Server:
    limits = settings.limits
    return Server(
        uvicorn.Config(
            ResponseFraming(app),
            loop="asyncio",  # uvloop, which vLLM installs, cannot start a process in its own process group
            http=http_protocol_class(limits.request_seconds, open_connections),
            ws=websocket_protocol_class(open_connections, app.state.bodies),
            backlog=ACCEPT_BATCH,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            ws_max_size=limits.max_body_bytes,
            ws_per_message_deflate=False,  # audio is compressed already; text could be a decompression bomb
            ws_ping_interval=None,  # pongs queue behind real-time audio; limits.stalled_seconds detects dead peers
        ),
        app.state.admission,
        app.state.sessions,
        limits.drain_seconds,
        report,
        heartbeat,
        peers=lambda: app.state.current_services.services.peers,
    )

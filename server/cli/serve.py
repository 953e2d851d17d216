"""The ``sonant serve`` command: checks the settings, opens the listening socket, supervises the HTTP process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn

from engine.system.logs import set_up_logging
from server.app import create_app
from server.cli.console import note, plain_errors
from server.http.address_file import address_file, url_of
from server.http.connection_table import ConnectionTable
from server.http.connections import http_protocol_class
from server.http.descriptors import ACCEPT_BATCH, connection_capacity, raise_descriptor_limit
from server.http.response_framing import ResponseFraming
from server.http.shutdown import Server, is_not_in_request_log
from server.http.supervisor import Heartbeat, Supervisor
from server.http.uvicorn_hooks import check_uvicorn
from server.http.websockets import websocket_protocol_class
from server.keys.valid_keys import load_keys
from server.listeners.opening import Sockets, create_listeners, open_sockets
from server.listeners.sockets import is_loopback
from server.reload.applied import AppliedSettings
from server.reload.reloader import Reload
from server.settings import Settings, load_settings
from server.voices.folder_access import folder_warning

log = logging.getLogger("sonant")

_KEEP_ALIVE_SECONDS = 30
"""Keep-alive timeout. Longer than that of clients (httpx: 5 s), so that no client writes to a connection that the
server has just closed."""


def serve(
    config: Annotated[
        Path | None,
        typer.Option(help="YAML file of settings, or name of an included one. Default: pocket, the pocket checkpoint."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of the setting host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 selects a free port.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Checkpoint folder, or repository name on the Hugging Face hub.")
    ] = None,
    keys_file: Annotated[
        Path | None, typer.Option(help="File of API keys: see sonant keys. Requests must send one of them.")
    ] = None,
    allow_unauthenticated: Annotated[
        bool,
        typer.Option("--allow-unauthenticated", help="Allow an address that other machines reach without an API key."),
    ] = False,
    grpc: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port for clients of Triton Inference Server; 0 selects a free port."),
    ] = None,
    wyoming: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port for Wyoming clients (Home Assistant); 0 selects a free port."),
    ] = None,
) -> None:
    """Serve a Qwen3-TTS checkpoint over HTTP."""
    flags: dict[str, Any] = {
        "host": host,
        "port": port,
        "engine": {"model": model} if model else None,
        "keys_file": keys_file,
        "allow_unauthenticated": allow_unauthenticated or None,
        "grpc": None if grpc is None else {"port": grpc},
        "wyoming": None if wyoming is None else {"port": wyoming},
    }
    with plain_errors("sonant serve"):
        check_uvicorn()
        load = partial(load_settings, config, {name: value for name, value in flags.items() if value is not None})
        settings = load()
        protected = bool(load_keys(settings))
        sockets = open_sockets(settings, protected=protected)
    _set_up_logging(settings)
    report = log.info if settings.log_format == "json" else note
    report(f"Loading {_names(settings)}; listening on {url_of(sockets.http)}")
    for protocol, address in sockets.names.items():
        report(f"{protocol} clients use {address}")
    if not protected and not is_loopback(sockets.http):
        report("Warning: the server has no key: everyone who can reach this address can use it.")
    if warning := folder_warning(settings.voices):
        report(f"Warning: {warning}")
    supervisor = Supervisor(
        partial(_run, AppliedSettings(settings), load, sockets, report),
        stall_seconds=settings.limits.http_stall_seconds,
        drain_seconds=settings.limits.drain_seconds,
    )
    with ExitStack() as files:
        with plain_errors("sonant serve"):
            files.enter_context(address_file(settings.address_file, sockets.http))
        code = supervisor.run()
    raise typer.Exit(code)


def _set_up_logging(settings: Settings) -> None:
    """Set up logging, and drop those of uvicorn's messages that the request log contains."""
    set_up_logging(settings.log_format)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(is_not_in_request_log)


def _run(
    applied: AppliedSettings,
    load: Callable[[], Settings],
    sockets: Sockets,
    report: Callable[[str], None],
    heartbeat: Heartbeat,
) -> int:
    """Run the HTTP process until it is stopped. Return its exit code: 1 if the engine could not start.

    applied: the settings to use. load: reads them again, for a reload.
    """
    settings = applied.get()
    failed = False

    def stop() -> None:
        nonlocal failed
        failed = server.should_exit = True

    def ready() -> None:
        heartbeat.engine_ready()
        report(f"Sonant serves {_names(settings)} on {url_of(sockets.http)}")

    limits = settings.limits
    capacity = connection_capacity(limits.max_connections, raise_descriptor_limit())
    open_connections = ConnectionTable(capacity, limits.connection_share)
    try:
        with plain_errors("sonant serve"):
            app = create_app(
                settings,
                on_engine_ready=ready,
                on_engine_failure=stop,
                listeners=create_listeners(settings, sockets, open_connections),
                reload=Reload(load, applied.set),
            )
    except typer.Exit as error:
        return error.exit_code
    server = Server(
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
            ws_max_size=settings.limits.max_body_bytes,
            ws_per_message_deflate=False,  # audio is compressed already; text could be a decompression bomb
            ws_ping_interval=None,  # pongs queue behind real-time audio; limits.stalled_seconds detects dead peers
        ),
        app.state.admission,
        app.state.sessions,
        settings.limits.drain_seconds,
        report,
        heartbeat,
    )
    server.run([sockets.http])
    return int(failed)


def _names(settings: Settings) -> str:
    return ", ".join(model.name for model in settings.all_models)

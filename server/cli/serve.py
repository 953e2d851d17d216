"""The ``sonant serve`` command: checks the settings, opens the listening socket, supervises the HTTP processes."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.system.logs import set_up_logging
from server.cli.console import note, plain_errors
from server.http.additional_processes import AdditionalProcesses
from server.http.address_file import address_file, url_of
from server.http.shutdown import is_not_in_request_log
from server.http.supervisor import Supervisor
from server.http.uvicorn_hooks import check_uvicorn
from server.keys.valid_keys import load_keys
from server.listeners.opening import open_sockets
from server.listeners.sockets import is_loopback, listen
from server.processes.run import model_names, run_additional, run_main
from server.reload.applied import AppliedSettings
from server.settings import Settings, load_settings
from server.voices.folder_access import folder_warning

log = logging.getLogger("sonant")


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
    report(f"Loading {model_names(settings)}; listening on {url_of(sockets.http)}")
    for protocol, address in sockets.names.items():
        report(f"{protocol} clients use {address}")
    if not protected and not is_loopback(sockets.http):
        report("Warning: the server has no key: everyone who can reach this address can use it.")
    if warning := folder_warning(settings.voices):
        report(f"Warning: {warning}")
    applied = AppliedSettings(settings)
    port, stalled_seconds = sockets.http.getsockname()[1], settings.limits.stalled_seconds
    additional = AdditionalProcesses(
        partial(run_additional, applied, sockets, report),
        partial(listen, settings.host, port, stalled_seconds, reuse_port=True),
        settings.http_processes - 1,
    )
    supervisor = Supervisor(
        partial(run_main, applied, load, sockets, report, additional),
        stall_seconds=settings.limits.http_stall_seconds,
        drain_seconds=settings.limits.drain_seconds,
        additional=additional,
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

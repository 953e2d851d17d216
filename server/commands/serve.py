"""``sonant serve``."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn

from server.app import create_app
from server.commands.console import note, plain_errors
from server.settings import Settings, SettingsError, load_settings
from server.stopping import Server, untold

_DRAIN_SECONDS = 30
"""A server told to stop lets running utterances end for so long."""
_KEEP_ALIVE_SECONDS = 30
"""Longer than clients keep an idle connection (httpx: 5), so that none writes into one just closed."""


def serve(
    config: Annotated[
        Path | None, typer.Option(help="A YAML file of settings; configs/pocket.yaml when not given.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes any free port.")] = None,
    model: Annotated[str | None, typer.Option(help="A checkpoint folder, or a Hugging Face hub name.")] = None,
) -> None:
    """Serve a Qwen3-TTS checkpoint over HTTP."""
    flags: dict[str, Any] = {"host": host, "port": port, "engine": {"model": model} if model else None}
    with plain_errors("sonant serve"):
        settings = load_settings(config, {name: value for name, value in flags.items() if value is not None})
        listener = _listen(settings)
        _check_key(listener)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(untold)
    note(f"Sonant serves {settings.model_name} on {_address(listener)}")
    if not _is_loopback(listener):
        note("Warning: anyone who reaches this address can use the server; it asks for no key.")
    if not _run(settings, listener):
        raise typer.Exit(1)


def _run(settings: Settings, listener: socket.socket) -> bool:
    """Serve until told to stop; False when the engine could not start."""
    failed = False

    def stop() -> None:
        nonlocal failed
        failed = server.should_exit = True

    app = create_app(settings, on_engine_failure=stop)
    server = Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        ),
        running=lambda: app.state.services.admission.taken,
    )
    with suppress(KeyboardInterrupt):
        server.run([listener])
    return not failed


def _listen(settings: Settings) -> socket.socket:
    """A listening socket, so that the address is known, or refused, before anything is loaded.

    Its connections inherit its options: asyncio would leave them with Nagle's algorithm, 40 ms late.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (")[0]
        raise OSError(f"cannot listen on {settings.host}:{settings.port}: {reason}") from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # the kernel drops what a stalled listener still has to take
        stalled = int(settings.limits.stalled_seconds * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stalled)
    return listener


def _check_key(listener: socket.socket) -> None:
    """Raises SettingsError: a key is set, so that whoever set it believes that it protects a network address."""
    if not os.environ.get("SONANT_API_KEY"):
        return
    if not _is_loopback(listener):
        host = listener.getsockname()[0]
        listener.close()
        raise SettingsError(f"SONANT_API_KEY is set, but keys are not checked yet: not listening on {host}")
    note("Warning: SONANT_API_KEY is set, but keys are not checked yet.")


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback

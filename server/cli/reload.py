"""The ``sonant reload`` command: makes a running server read its configuration again."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from server.cli.console import note, plain_errors
from server.reload.control_socket import running_servers, socket_name
from server.settings import SettingsError


def reload(
    pid: Annotated[
        int | None,
        typer.Option(min=1, help="Process id of sonant serve. Default: the only server of this user."),
    ] = None,
) -> None:
    """Apply changes of a running server's configuration file, without refusing or interrupting requests."""
    with plain_errors("sonant reload"):
        if sys.platform != "linux":
            raise SettingsError("only Linux is supported; send SIGHUP to sonant serve, and read its log")
        server = _only_server() if pid is None else pid
        ok, message = request_reload(server)
        if not ok:
            raise SettingsError(f"nothing has changed: {message}")
    note(f"reloaded the server with the process id {server}: {message}")


def _only_server() -> int:
    """Return the process id of the only server of this user, or for root of any user. Raises SettingsError."""
    found = [server for server in running_servers() if os.geteuid() in (0, _user_of(server))]
    if not found:
        raise SettingsError("no server of this user is running in this system or container")
    if len(found) > 1:
        raise SettingsError(f"several servers are running: choose one with --pid, {', '.join(map(str, found))}")
    return found[0]


def _user_of(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except FileNotFoundError:
        return None


def request_reload(server: int) -> tuple[bool, str]:
    """Reload a server, and wait until it has. Return whether it did, and its message. Raises SettingsError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        try:
            control.connect(socket_name(server))
            answer = b"".join(iter(lambda: control.recv(65536), b""))
        except ConnectionError as error:
            raise SettingsError(f"the server with the process id {server} does not answer: {error.strerror}") from None
    if not answer:
        raise SettingsError(f"the server with the process id {server} has ended")
    fields = json.loads(answer)
    return bool(fields["ok"]), str(fields["message"])

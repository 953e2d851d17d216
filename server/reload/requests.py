"""How a server is told to reload: a signal from its supervisor, or ``sonant reload`` over a Unix socket."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.http.supervisor import RELOAD_SIGNAL
from server.reload.control_socket import socket_name
from server.reload.reloader import Reloader, ReloadError

log = logging.getLogger("sonant")

_CREDENTIALS = struct.Struct("3i")
"""``struct ucred``: process, user and group of the peer."""


@asynccontextmanager
async def reload_requests(reloader: Reloader) -> AsyncIterator[None]:
    """Accept requests to reload while the context lasts. Call it in the HTTP process, a child of the supervisor."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(RELOAD_SIGNAL, reloader.request)
    server = await _control_server(reloader)
    try:
        yield
    finally:
        loop.remove_signal_handler(RELOAD_SIGNAL)
        if server is not None:
            server.close()


async def _control_server(reloader: Reloader) -> asyncio.Server | None:
    """Return the server of the Unix socket; None, with a warning in the log, if it cannot be opened."""
    if sys.platform != "linux":
        return None
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        control.bind(socket_name(os.getppid()))
    except OSError as error:
        control.close()
        log.warning("sonant reload will not find this server: %s; SIGHUP reloads it, too", error.strerror)
        return None

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(json.dumps(await _reload(reloader, writer)).encode())
            await writer.drain()
        except ConnectionError:
            pass  # sonant reload was interrupted
        finally:
            writer.close()

    return await asyncio.start_unix_server(answer, sock=control)


async def _reload(reloader: Reloader, writer: asyncio.StreamWriter) -> dict[str, object]:
    """Reload for the process at the other end, and return the answer: ``ok`` and ``message``."""
    peer = writer.get_extra_info("socket")
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if user not in (0, os.geteuid()):
        return {"ok": False, "message": f"user {user} may not reload a server of user {os.geteuid()}"}
    try:
        return {"ok": True, "message": str(await reloader.reload())}
    except ReloadError as error:
        return {"ok": False, "message": str(error)}

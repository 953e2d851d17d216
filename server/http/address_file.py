"""The address of a running server: its URL, and the file with which other commands find it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def address_file(path: Path | None, listener: socket.socket) -> Iterator[None]:
    """Write the URL at which this machine reaches the server to ``path``; delete it at the end. Raises OSError."""
    if path is None:
        yield
        return
    url = url_of(listener).replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    path.write_text(f"{url}\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)

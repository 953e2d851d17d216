"""Recordings on this machine, in folders that the configuration names."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from server.errors import ApiError
from server.references.refusals import refusal, too_large, unsupported


def read_file(source: str, folders: Sequence[Path], most_bytes: int) -> bytes:
    """The file that ``source``, an absolute path or a ``file:`` URL, names. Blocks: call it off the event loop.

    Raises ApiError, the same one whether there is no such file, it is elsewhere, or it cannot be read.
    """
    if not folders:
        raise unsupported("this server reads no files of its own; send a 'data:' URL, or an http or https address")
    try:
        path = _path(source).resolve(strict=True)
        if not any(path.is_relative_to(folder.resolve()) for folder in folders):
            raise _missing()
        data = _read(path, most_bytes + 1)
    except (OSError, RuntimeError, ValueError):
        raise _missing() from None
    if len(data) > most_bytes:
        raise too_large(most_bytes)
    return data


def _path(source: str) -> Path:
    """Raises ValueError where ``source`` is no absolute path of this machine."""
    if source.startswith("/"):
        return Path(source)
    url = urlsplit(source)
    path = Path(unquote(url.path))
    if url.netloc.lower() not in ("", "localhost") or not path.is_absolute():
        raise ValueError(source)
    return path


def _read(path: Path, most: int) -> bytes:
    """At most ``most`` bytes of a file that is neither a link nor a pipe by now. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:  # fdopen does not close what it refuses, such as a folder
        os.close(descriptor)


def _missing() -> ApiError:
    return refusal("there is no such file in the folders that this server reads recordings from", "reference_not_found")

"""Recordings on this machine, in folders that the configuration names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.regular_file import FileTooLargeError, read_regular
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
        return read_regular(path, most_bytes, follow_symlinks=False)
    except FileTooLargeError:
        raise too_large(most_bytes) from None
    except (OSError, RuntimeError, ValueError):
        raise _missing() from None


def _path(source: str) -> Path:
    """Raises ValueError where ``source`` is no absolute path of this machine."""
    if source.startswith("/"):
        return Path(source)
    url = urlsplit(source)
    path = Path(unquote(url.path))
    if url.netloc.lower() not in ("", "localhost") or not path.is_absolute():
        raise ValueError(source)
    return path


def _missing() -> ApiError:
    return refusal("there is no such file in the folders that this server reads recordings from", "reference_not_found")

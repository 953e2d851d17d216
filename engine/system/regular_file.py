"""Read files that must be regular files: never block on a FIFO or a device, never read without a bound."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

_TYPES = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}


class NotRegularFileError(OSError):
    """A path is not a regular file. ``strerror`` says what it is."""


class FileTooLargeError(OSError):
    """A file is larger than the limit. ``strerror`` contains the limit."""


def open_regular(path: Path, *, follow_symlinks: bool = True) -> io.FileIO:
    """Open a regular file for reading, unbuffered. Never blocks, whatever ``path`` is.

    Raises NotRegularFileError for a FIFO, device, directory or socket, and OSError if the file cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow_symlinks else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # Linux: open() of a socket
            raise NotRegularFileError(errno.EINVAL, "a socket, not a regular file", str(path)) from None
        raise
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        reason = f"{_TYPES.get(kind, 'a special file')}, not a regular file"
        raise NotRegularFileError(errno.EINVAL, reason, str(path))
    return io.FileIO(descriptor, "rb")


def read_regular(path: Path, max_bytes: int, *, follow_symlinks: bool = True) -> bytes:
    """Return the content of a regular file of at most ``max_bytes`` bytes.

    Raises NotRegularFileError, FileTooLargeError, or OSError if the file cannot be read.
    """
    with open_regular(path, follow_symlinks=follow_symlinks) as raw:
        data = io.BufferedReader(raw).read(max_bytes + 1)
    if len(data) > max_bytes:
        raise FileTooLargeError(errno.EFBIG, f"larger than the {max_bytes} bytes that are allowed", str(path))
    return data

"""Exclusive locks between processes, on open files and folders."""

from __future__ import annotations

import fcntl
import time

_RETRY_SECONDS = 0.002


def lock_file(descriptor: int, timeout: float) -> None:
    """Lock an open file or folder exclusively (flock). Closing ``descriptor`` releases the lock.

    Raises TimeoutError when another process has held the lock for ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"another writer held the lock for more than {timeout:g} s") from None
            time.sleep(_RETRY_SECONDS)
        else:
            return

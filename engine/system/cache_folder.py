"""The folder for files that can be made again: compiled kernels and measurements. Imports no torch."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path | None:
    """Return ``$XDG_CACHE_HOME/sonant`` or ``~/.cache/sonant``, or None when the user has no home folder."""
    configured = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(configured or Path.home() / ".cache") / "sonant"
    except RuntimeError:
        return None


def write_atomically(file: Path, data: bytes) -> None:
    """Write a file, so that other processes see all of it or nothing. Creates its folder. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as output:
            output.write(data)
        Path(name).replace(file)
    except OSError:
        Path(name).unlink()
        raise

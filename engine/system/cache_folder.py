"""The folder for files that can be made again: compiled kernels and measurements. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """Return ``$XDG_CACHE_HOME/sonant`` or ``~/.cache/sonant``, or None when the user has no home folder."""
    configured = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(configured or Path.home() / ".cache") / "sonant"
    except RuntimeError:
        return None

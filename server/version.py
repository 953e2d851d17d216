"""The installed version."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of the installed package, or "0" if the package is not installed."""
    try:
        return metadata.version("sonant")
    except metadata.PackageNotFoundError:
        return "0"

"""The installed version."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Of the package; "0" where it runs from a tree that was never installed."""
    try:
        return metadata.version("sonant")
    except metadata.PackageNotFoundError:
        return "0"

"""Shares of a blend as command lines spell them."""

from __future__ import annotations


def weighted(text: str) -> tuple[str, float]:
    """``NAME:WEIGHT`` or, with a weight of 1, ``NAME``. Raises ValueError for a weight below 0 or not finite."""
    name, _, weight = text.rpartition(":")
    try:
        share = float(weight)
    except ValueError:
        return text, 1.0
    if not name or not 0 <= share < float("inf"):
        raise ValueError(f"{text}: must be NAME or NAME:WEIGHT, the weight at least 0")
    return name, share

"""Whether the end of a text was spoken."""

from __future__ import annotations

from collections.abc import Sequence

_LAST = 3
_NEAR_END = 5
"""Words at the end of what was heard, among which the last words may stand: a recogniser may add some."""


def ending_lost(said: Sequence[str], heard: Sequence[str]) -> bool:
    """Whether none of the last three words of a text is among the last words that were heard."""
    return not set(said[-_LAST:]) & set(heard[-_NEAR_END:])

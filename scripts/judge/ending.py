"""Checks whether the end of a text was spoken."""

from __future__ import annotations

from collections.abc import Sequence

_LAST_WORDS = 3
_NEAR_END = 5
"""Number of recognized words at the end that are searched. A recognizer may append words."""


def ending_lost(text: Sequence[str], recognized: Sequence[str]) -> bool:
    """Return whether none of the last three words of a text is among the last recognized words."""
    return not set(text[-_LAST_WORDS:]) & set(recognized[-_NEAR_END:])

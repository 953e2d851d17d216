"""Checks whether a text has any visible character."""

from __future__ import annotations

import unicodedata

_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
"""Unicode categories of invisible characters: spaces, line and paragraph separators, controls, zero-width ones."""


def has_visible_text(text: str) -> bool:
    """Return whether any character of ``text`` is visible."""
    return any(unicodedata.category(character) not in _INVISIBLE for character in text)

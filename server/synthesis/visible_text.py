"""Whether a text has anything visible to speak."""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
"""Unicode's categories of spaces, ends of lines and paragraphs, controls, and zero-width characters."""


def has_visible_text(text: str) -> bool:
    """Whether any character of ``text`` could be seen."""
    return any(unicodedata.category(character) not in _UNSEEN for character in text)

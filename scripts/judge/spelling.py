"""Differences of spelling that cannot be heard."""

from __future__ import annotations

import re

_SPELLED = re.compile(r"\b[a-z0-9](?: [a-z0-9])+\b")


def join_letters(text: str) -> str:
    """Return a text in lower case with single letters and digits in a row as one word: "h t t p" as "http"."""
    return _SPELLED.sub(lambda letters: letters[0].replace(" ", ""), text)


def same_sounds(one: str, other: str) -> bool:
    """Return whether two texts differ only in spaces, as "good bye" and "goodbye"."""
    return one.replace(" ", "") == other.replace(" ", "")

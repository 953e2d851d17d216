"""Removes quotation marks, for checkpoints that misread the words after them."""

from __future__ import annotations

from server.text.patterns import lazy

_BETWEEN_WORDS = lazy(r'(?<=[^\s"])"(?=\w)')
_ARTICLE = lazy(r'(?<=[\w,:;] )"A(?= [a-z])')
"""An article that begins a quotation inside a sentence. Without the mark, its capital would make it a letter."""
_MARK = lazy(r'[ ]*"(?=[\s.,;:?!]|$)|"')
"""A mark. A closing one with the spaces before it."""


def drop(text: str) -> str:
    """Return ``text`` without plain double quotes; the unicode step turns other ones into plain ones."""
    if '"' not in text:
        return text
    text = _ARTICLE.sub('"a', _BETWEEN_WORDS.sub(" ", text))
    return _MARK.sub("", text)

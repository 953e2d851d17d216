"""Splits text that arrives in pieces into a part that can be tokenized now and a rest."""

from __future__ import annotations

from unicodedata import normalize

from engine.prompt.readings import CONTEXT
from engine.prompt.tokenizer import TextTokenizer


class LiveText:
    """Buffers the end of a live text that a later piece could still change: the last word and what follows it.

    Tokenizing the returned parts one by one gives the tokens of the whole text, because words are tokenized separately
    (SPEC 1.3). The exception is a word of a lexicon whose reading depends on words that arrive later.

    Attributes:
        returned: the end of the text that was returned so far.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending = self.returned = ""

    def add(self, piece: str, *, last: bool = False) -> str:
        """Add a piece. Return the text, in NFC, that later pieces cannot change; with ``last``, all remaining text."""
        text = normalize("NFC", self._pending + piece)
        stable = len(text) if last else self._tokenizer.stable_length(text)
        self._pending = text[stable:]
        self.returned = (self.returned + text[:stable])[-CONTEXT:]
        return text[:stable]

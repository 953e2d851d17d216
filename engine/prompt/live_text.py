"""Splits text that arrives in pieces into the part that can be tokenized now and the rest."""

from __future__ import annotations

from unicodedata import normalize

from engine.prompt.tokenizer import TextTokenizer


class LiveText:
    """Keeps back what a later piece could still change: the last word, which may grow, and what follows it.

    Its parts, tokenised one by one, are the tokens of the whole text (SPEC 1.3: words are tokenised by themselves).
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._kept = ""

    def add(self, piece: str, *, last: bool = False) -> str:
        """Return the part that ``piece`` settles, in NFC; all that is left with the ``last`` one."""
        text = normalize("NFC", self._kept + piece)
        settled = len(text) if last else self._tokenizer.settled(text)
        self._kept = text[settled:]
        return text[:settled]

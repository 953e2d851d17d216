"""How much text an utterance can begin with."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Zero-width (non-)joiners, which shape the letters of one word in Indic scripts and Persian."""


class Opening:
    """Collects text until its first word has ended: what the talker begins with must not change any more."""

    def __init__(self) -> None:
        self.text = ""
        self._in_word = False

    def add(self, piece: str) -> bool:
        """Take ``piece`` and return whether an utterance can begin."""
        self.text += piece
        for character in piece:
            if character.isalnum():
                self._in_word = True
            elif self._in_word and not _continues_word(character):
                return True
        return False


def _continues_word(character: str) -> bool:
    """Whether a character that is neither letter nor digit belongs to the word before it, as an accent does."""
    return unicodedata.category(character).startswith("M") or character in _JOINERS

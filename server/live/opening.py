"""How much text an utterance can begin with."""

from __future__ import annotations

import re

_WORD_ENDED = re.compile(r"[^\W_][\W_]")


class Opening:
    """Collects text until its first word has ended: what the talker begins with must not change any more."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, piece: str) -> bool:
        """Take ``piece``; whether an utterance can begin."""
        self.text += piece
        return _WORD_ENDED.search(self.text) is not None

"""Finds pieces of speech in which words are missing or repeated, with the aligner of the word timestamps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np

from engine.protocol.request import AudioChunk, SpeechRequest
from engine.protocol.speech_profile import SpeechProfile
from server.alignment.aligner import LANGUAGE, english_aligner
from server.alignment.tokens import can_read
from server.guards.expectation import is_very_short
from server.text.language import text_language
from server.text.patterns import lazy

log = logging.getLogger("sonant.guards")

_MOST_WAITING = 4
"""Pieces that may wait for the aligner, of requests that cannot wait longer."""
_LONGEST_TEXT = 1000
"""Characters of the longest text that is checked at once, which bounds the memory."""
_NOT_WORDS = lazy(r"[^\s\w.,;:!?'\"’‘“”()…—–-]|[\d_]")
"""What the aligner cannot read: it was trained on text whose digits and symbols are written as words."""


class WordCheck:
    """Counts missing and repeated words in complete pieces of speech.

    Args:
        thread: aligns, one piece at a time.
    """

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._waiting = 0

    @staticmethod
    def applies(request: SpeechRequest, profile: SpeechProfile) -> bool:
        """Return whether the aligner can read the text of ``request``: English, in which everything is a word.

        profile: of the checkpoint, which must have been trained on such text. Very short texts have a check of their
        own, ``Fault.LONG``.
        """
        text = request.text
        return (
            "normalize" in profile.text_steps
            and not is_very_short(text)
            and len(text) <= _LONGEST_TEXT
            and _NOT_WORDS.search(text) is None
            and can_read(text)
            and text_language(request.language, text, profile.languages) == LANGUAGE
        )

    async def faults(self, text: str, chunks: Sequence[AudioChunk], *, wait: bool) -> int:
        """Return about how many words are missing in a piece or were added to it.

        Args:
            text: of the piece.
            chunks: all of the piece.
            wait: whether to wait for a busy aligner; without it, the result is then 0.
        """
        if self._waiting >= _MOST_WAITING and not wait:
            return 0
        self._waiting += 1
        try:
            samples = np.concatenate([chunk.samples for chunk in chunks])
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: english_aligner().fit(samples, text).faults
            )
        except Exception:  # the speech is good for all we know
            log.exception("checking the words of %d characters failed", len(text))
            return 0
        finally:
            self._waiting -= 1

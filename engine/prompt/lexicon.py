"""The pronunciations of words that a checkpoint does not read well from their spelling.

A checkpoint may have a ``lexicon.txt.gz`` with sorted lines of a word in lower case and its phonemes. The tokenizer
replaces these words by ``MARK`` and the phonemes, as in the checkpoint's training texts. The notation of the phonemes
belongs to the checkpoint; that of pocket is in ``scripts/train_pocket/word_phonemes.py``.
"""

from __future__ import annotations

import gzip
import re
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from engine.checkpoint.checksums import Checksums
from engine.errors import CheckpointError

LEXICON_FILE = "lexicon.txt.gz"
MARK = "{"
"""What precedes the phonemes of a word."""
WORD = re.compile(r"(?<!['’])[^\W\d_]{3,}")
"""A word that can have an entry. It is always inside one part of the tokenizer's split pattern."""


class Lexicon:
    """Replaces words by their phonemes, in any case.

    It keeps sorted lines, because a dict needs three times as much memory.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        """lines: sorted, each a word in lower case, a space, and its phonemes."""
        self._lines = lines

    def __call__(self, text: str) -> str:
        """Return ``text`` with phonemes for the words that have an entry. A ``MARK`` in it becomes a parenthesis."""
        return WORD.sub(self._phonemes, text.replace(MARK, "("))

    def _phonemes(self, word: re.Match[str]) -> str:
        key = f"{word[0].lower()} "
        index = bisect_left(self._lines, key)
        if index < len(self._lines) and self._lines[index].startswith(key):
            return MARK + self._lines[index][len(key) :]
        return word[0]


def read_lexicon(folder: Path, checksums: Checksums) -> Lexicon | None:
    """Return the lexicon of a checkpoint folder; None if it has none.

    Raises CheckpointError, with the file and the line, if it is malformed.
    """
    file = folder / LEXICON_FILE
    if not file.exists() and not checksums.lists(file):
        return None
    try:
        lines = gzip.decompress(checksums.read(file)).decode().splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file} must be gzipped UTF-8 text: {error}") from error
    for number, line in enumerate(lines, 1):
        word, _, phonemes = line.partition(" ")
        if not word or not phonemes or " " in phonemes:
            raise CheckpointError(
                f"{file}, line {number}: must be a word and its phonemes, separated by a space, found {line!r:.80}"
            )
    for number, (before, after) in enumerate(pairwise(lines), 2):
        if before >= after:
            raise CheckpointError(
                f"{file}, line {number}: lines must be sorted and different, found {after!r:.80} after {before!r:.80}"
            )
    return Lexicon(lines)

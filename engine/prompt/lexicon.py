"""The pronunciations of words that a checkpoint does not read well from their spelling.

A checkpoint may have a ``lexicon.txt.gz`` with sorted lines of a word in lower case and its phonemes. The tokenizer
replaces these words by ``MARK`` and the phonemes, as in the checkpoint's training texts. The notation of the phonemes
belongs to the checkpoint; that of pocket is in ``scripts/train_pocket/word_phonemes.py``. The entry of a word with
several readings has the name of one of them, such as ``wind/turn``. It replaces the word where the context asks for
this reading (``engine.prompt.readings``).
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from engine.checkpoint.checksums import MAX_TEXT_BYTES, Checksums
from engine.errors import CheckpointError
from engine.prompt.readings import CONTEXT, NAMES, WORDS, compiled_rules, reading

LEXICON_FILE = "lexicon.txt.gz"
MARK = "{"
"""What precedes the phonemes of a word."""
ROLES = frozenset(("assistant", "user"))
"""Words of every prompt, which cannot be entries."""
_ENTRY = re.compile(r"[^\W\d_]{3,}(?:/[a-z]+)?")
"""A word, or a word and the name of a reading."""
_WORD = re.compile(r"\W?([^\W\d_]+)")
"""A part of the tokenizer's split pattern that is a word, with the character before it."""


class Lexicon:
    """Replaces words by their phonemes, in any case.

    It keeps sorted lines, because a dict needs three times as much memory.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        """lines: sorted, each a word in lower case, a space, and its phonemes."""
        self._lines = lines
        compiled_rules()

    def __call__(self, parts: Iterable[str], before: str = "") -> str:
        """Return a text with phonemes for the words that have an entry. A ``MARK`` in it becomes a parenthesis.

        parts: the text, split by the tokenizer's pattern. before: the end of the text before it. Only words with
        several readings depend on other parts.
        """
        parts = list(parts)
        text, end, read = before + "".join(parts), len(before), []
        for part in parts:
            end += len(part)
            read.append(self._read(part, text, end))
        return "".join(read)

    def _read(self, part: str, text: str, end: int) -> str:
        """Return a part of ``text``, which ends at ``end``, as it is read."""
        match = _WORD.fullmatch(part)
        phonemes = None if match is None else self._phonemes(match[1], text, end)
        if match is None or phonemes is None:
            return part.replace(MARK, "(")
        return part[: match.start(1)].replace(MARK, "(") + MARK + phonemes

    def _phonemes(self, written: str, text: str, end: int) -> str | None:
        """Return the phonemes of a word of ``text``, which ends at ``end``."""
        word = written.lower()
        if word in WORDS:
            start = end - len(written)
            name = reading(word, text[max(0, start - CONTEXT) : start], text[end : end + CONTEXT])
            phonemes = None if name is None else self._entry(f"{word}/{name}")
            if phonemes is not None:
                return phonemes
        return self._entry(word)

    def _entry(self, word: str) -> str | None:
        index = bisect_left(self._lines, f"{word} ")
        entry = self._lines[index] if index < len(self._lines) else ""
        return entry[len(word) + 1 :] if entry.startswith(f"{word} ") else None


def read_lexicon(folder: Path, checksums: Checksums) -> Lexicon | None:
    """Return the lexicon of a checkpoint folder; None if it has none.

    Raises CheckpointError, with the file and the line, if it is malformed.
    """
    file = folder / LEXICON_FILE
    if not file.exists() and not checksums.lists(file):
        return None
    lines = _text(file, checksums.read(file)).splitlines()
    if not lines:
        raise CheckpointError(f"{file} has no words")
    words = [line.partition(" ")[0] for line in lines]
    for number, (word, line) in enumerate(zip(words, lines, strict=True), 1):
        phonemes = line[len(word) + 1 :]
        if not (_ENTRY.fullmatch(word) and word == word.lower() and phonemes) or " " in phonemes:
            raise CheckpointError(
                f"{file}, line {number}: must be a word of at least 3 lower-case letters, with a reading such as "
                f"wind/turn if it has several, a space and its phonemes, found {line!r:.80}"
            )
        if "/" in word and tuple(word.split("/")) not in NAMES:
            raise CheckpointError(f"{file}, line {number}: engine.prompt.heteronyms has no reading {word!r}")
        if word in ROLES:
            raise CheckpointError(f"{file}, line {number}: {word!r} is part of every prompt and cannot have an entry")
    for number, (before, after) in enumerate(pairwise(words), 2):
        if before >= after:
            raise CheckpointError(
                f"{file}, line {number}: words must be sorted and different, found {after!r:.80} after {before!r:.80}"
            )
    return Lexicon(lines)


def _text(file: Path, data: bytes) -> str:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
            text = unpacked.read(MAX_TEXT_BYTES + 1)
        if len(text) > MAX_TEXT_BYTES:
            raise CheckpointError(f"{file} must have at most {MAX_TEXT_BYTES >> 20} MiB of text")
        return text.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file} must be gzipped UTF-8 text: {error}") from error

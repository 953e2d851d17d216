"""The words of a text, and the tokens that the aligner's network reads: letters, and the boundaries between words."""

from __future__ import annotations

import re
import string
import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BOUNDARIES = ("edge", "space", "clause", "sentence")
"""Boundary tokens: the start and the end of a text, a space, and a space after punctuation. Frames of silence match
them."""
_LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits + "'-"
_OTHER = len(_BOUNDARIES) + len(_LETTERS)
"""The token of every letter that is not in ``_LETTERS``."""
VOCABULARY = _OTHER + 1
_BOUNDARY_ID = {name: index for index, name in enumerate(_BOUNDARIES)}
_LETTER_ID = {letter: len(_BOUNDARIES) + index for index, letter in enumerate(_LETTERS)}
_WORD = re.compile(r"\S+?(?:[—…]+|\.{3}|(?=\s)|$)")
_APOSTROPHES = str.maketrans("’‘ʼ", "'''")


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a text.

    Attributes:
        ids: int64 [n]. The first and the last are boundaries, and there is one between any two words.
        words: int64 [n], the index of each token's word. -1 for boundaries.
    """

    ids: NDArray[np.int64]
    words: NDArray[np.int64]


def words_of(text: str) -> list[str]:
    """Return the words of ``text`` with their punctuation. Marks that stand alone belong to no word."""
    return [word for word in _WORD.findall(text) if any(map(str.isalnum, word))]


def can_read(text: str) -> bool:
    """Return whether each letter of ``text`` has a token of its own."""
    return not any(_OTHER in _letters(word) for word in words_of(text))


def tokens_of(words: list[str]) -> Tokens:
    """Return the tokens of ``words``, each with a letter or digit."""
    ids, owners = [_BOUNDARY_ID["edge"]], [-1]
    for index, word in enumerate(words):
        letters = _letters(word)
        ids += [*letters, _BOUNDARY_ID[_boundary_after(word) if index + 1 < len(words) else "edge"]]
        owners += [*[index] * len(letters), -1]
    return Tokens(np.array(ids, np.int64), np.array(owners, np.int64))


def _letters(word: str) -> list[int]:
    """Return the ids of the letters of ``word``, accents removed; at least one."""
    plain = unicodedata.normalize("NFKD", word.translate(_APOSTROPHES))
    core = plain.strip("'-")
    ids = [_LETTER_ID.get(letter, _OTHER) for letter in core if letter.isalnum() or letter in "'-"]
    return ids or [_OTHER]


def _boundary_after(word: str) -> str:
    marks = word[len(word.rstrip("\"'”’)]»")) - 1 :] if word else ""
    if marks[:1] in tuple(".!?…"):
        return "sentence"
    return "clause" if marks[:1] in tuple(",;:—–") else "space"

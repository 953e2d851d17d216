"""Counts the errors in an alignment of two texts, without differences that cannot be heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Protocol

from scripts.judge.spelling import same_sounds


class Chunk(Protocol):
    """Words that are equal, replaced, missing or added: jiwer's ``AlignmentChunk``."""

    type: str
    ref_start_idx: int
    ref_end_idx: int
    hyp_start_idx: int
    hyp_end_idx: int


Alike = Callable[[Sequence[str], Sequence[str]], bool]
"""Returns whether two groups of words sound alike."""


def differences(
    chunks: Sequence[Chunk], expected: Sequence[str], actual: Sequence[str], alike: Alike
) -> Iterator[Chunk]:
    """Yield the chunks of words that are missing, wrong or added.

    Chunks between two equal ones are compared together. They are left out if their words are only joined or split, or
    sound alike, but not if another word among them is wrong.
    """
    for equal, group in groupby(chunks, lambda chunk: chunk.type == "equal"):
        run = list(group)
        first, last = run[0], run[-1]
        one, other = expected[first.ref_start_idx : last.ref_end_idx], actual[first.hyp_start_idx : last.hyp_end_idx]
        if not (equal or same_sounds(" ".join(one), " ".join(other)) or alike(one, other)):
            yield from run


def count_errors(wrong: Iterable[Chunk]) -> int:
    """Return the number of words in the chunks of ``differences``."""
    return sum(max(each.ref_end_idx - each.ref_start_idx, each.hyp_end_idx - each.hyp_start_idx) for each in wrong)

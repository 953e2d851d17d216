"""Aligns the sentences of a text with what was heard: ``python -m scripts.judge.align`` in the judges' environment.

Reads a JSON object with ``sentences`` and ``heard`` from standard input. Prints one with ``errors``, ``words``,
``lost`` (sentences of which less than half was heard) and ``inserted`` (groups of words that are not in the text).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import jiwer

from scripts.judge.differences import count_errors, differences
from scripts.judge.homophones import pronunciations
from scripts.judge.words import normalize

_INSERTED = 4
"""Words. A recognizer writes some words as two."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def main() -> None:
    """Print the comparison."""
    request = json.load(sys.stdin)
    print(json.dumps(align(request["sentences"], request["heard"])))


def align(sentences: Sequence[str], heard: str) -> dict[str, Any]:
    """Return the comparison of ``sentences`` with ``heard``. Words that sound alike are right."""
    words = [normalize(sentence).split() for sentence in sentences]
    owners = [number for number, each in enumerate(words) for _ in each]
    expected, actual = [word for each in words for word in each], _words(heard)
    chunks = jiwer.process_words(" ".join(expected), " ".join(actual)).alignments[0]
    wrong = list(differences(chunks, expected, actual, pronunciations().alike))
    right, inserted = list(map(len, words)), []
    for chunk in wrong:
        for owner in owners[chunk.ref_start_idx : chunk.ref_end_idx]:
            right[owner] -= 1
        if chunk.type == "insert" and chunk.hyp_end_idx - chunk.hyp_start_idx >= _INSERTED:
            inserted.append(" ".join(actual[chunk.hyp_start_idx : chunk.hyp_end_idx]))
    return {
        "errors": count_errors(wrong),
        "words": len(expected),
        "lost": [
            sentence for sentence, each, found in zip(sentences, words, right, strict=True) if 2 * found < len(each)
        ],
        "inserted": inserted,
    }


def _words(heard: str) -> list[str]:
    """Return the normalized words of each sentence: the normalizer makes 61 of "six. One ticket", and . of "..."."""
    words = [word for sentence in _SENTENCE_END.split(heard) for word in normalize(sentence).split()]
    return [word for word in words if any(map(str.isalnum, word))]


if __name__ == "__main__":
    main()

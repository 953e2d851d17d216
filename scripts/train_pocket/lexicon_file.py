"""Writes lexicon.txt.gz: the words that a checkpoint should read as phonemes (``engine/prompt/lexicon.py``).

They are the words of the lexicon of ``hibari-tts`` with one reading that are rare in the training texts, and
``READINGS``. Words with a regular ending that are very rare are left out, to keep the file small: their spelling shows
how they are read.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.prompt.lexicon import ROLES
from scripts.train_pocket.texts import read_sentences
from scripts.train_pocket.word_phonemes import WORD, notation

Entries = Mapping[str, str | Mapping[str, str]]
_EXCLUDED = ROLES | frozenset("basses bustier gib gui loa rainier skied wei".split())
"""Words that have another reading than the lexicon's, and those of every prompt."""
READINGS = {
    "abuse/noun": "xby1us", "bass/fish": "b1as", "bass/music": "b1Es", "bow/bend": "b1W", "bows/bend": "b1Wz",
    "close/near": "kl1os", "content/pleased": "kxnt1ent", "dove/bird": "d1Vv", "dove/dive": "d1ov",
    "doves/bird": "d1Vvz", "excuse/noun": "Iksky1us", "lead/metal": "l1ed", "live/now": "l1Yv",
    "minute/tiny": "mYn1ut", "number/numb": "n1Vmxr", "object/verb": "xbj1ekt", "read/past": "r1ed",
    "record/verb": "rxk1Ord", "refuse/waste": "r1efy2us", "resume/document": "r1ezxm2E", "row/quarrel": "r1W",
    "sow/pig": "s1W", "sow/seed": "s1o", "tear/drop": "t1Ir", "tear/rip": "t1er", "use/noun": "y1us",
    "wind/turn": "w1Ynd", "winds/turn": "w1Yndz", "wound/turned": "w1Wnd",
}  # fmt: skip
"""The phonemes of the readings that ``engine.prompt.readings`` finds by context."""
_STRESS = "1"
_REGULAR = re.compile(r".*(?:ness|ly|ers?|ors?|s|ed|ing|able|is(?:e|ation)|ized?|est)")
_VERY_RARE = 3
"""Maximum occurrences of a word with a regular ending that is left out."""


def lexicon_lines(lexicons: Iterable[Entries], counts: Mapping[str, int], most: int) -> list[str]:
    """Return the sorted lines for words that occur at most ``most`` times.

    lexicons: word -> the teacher's symbols, or several readings. The first one has the words, the others can only show
    that a word has another reading. counts: occurrences by word in lower case.
    """
    first, *others = lexicons
    readings = defaultdict[str, set[str | None]](set)
    for lexicon in (first, *others):
        for word, symbols in lexicon.items():
            readings[word.lower()].add(notation(symbols) if isinstance(symbols, str) else None)
    lines = set()
    for word in {word.lower() for word in first if WORD.fullmatch(word)} - _EXCLUDED:
        phonemes, *more = readings[word]
        if not phonemes or more or phonemes.count(_STRESS) != 1 or counts[word] > most:
            continue
        if counts[word] > _VERY_RARE or not _REGULAR.fullmatch(word):
            lines.add(f"{word} {phonemes}")
    return sorted(lines)


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs, in lower case."""
    return Counter(word.lower() for text in texts for word in WORD.findall(text))


def main() -> None:
    """Write the file."""
    from hibari.g2p import G2P

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, default=Path(".pocket/texts.jsonl"), help="output of texts.py")
    parser.add_argument("--most", type=int, default=15, help="maximum occurrences of a word in the texts")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    args = parser.parse_args()
    counts = word_counts(each.text for each in read_sentences(args.texts))
    lexicon = G2P(british=False).lexicon
    lines = lexicon_lines([lexicon.golds.d, lexicon.silvers.d], counts, args.most)
    lines = sorted([*lines, *(f"{word} {phonemes}" for word, phonemes in READINGS.items())])
    data = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    args.out.write_bytes(data)
    print(f"{len(lines)} words, {len(data) / 1000:.0f} kB")


if __name__ == "__main__":
    main()

"""Writes lexicon.txt.gz: the words that a checkpoint should read as phonemes (``engine/prompt/lexicon.py``).

They are the words of the lexicon of ``hibari-tts`` with one reading that are rare in the training texts, those of the
texts that it inflects, ``READINGS``, and ``misread_words.txt``. Words that are made of a frequent word are left out, to
keep the file small: their spelling shows how they are read. ``misread_words.txt`` has the exceptions, and names, which
a recognizer hears wrong.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine.prompt.lexicon import ROLES
from scripts.train_pocket.derived_words import is_derived, stems
from scripts.train_pocket.texts import read_sentences
from scripts.train_pocket.word_phonemes import WORD, notation

Entries = Mapping[str, str | Mapping[str, str]]
_EXCLUDED = ROLES | frozenset("basses bustier gib gui loa rainier resents skied tis wei whinging".split())
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
MISREAD = Path(__file__).with_name("misread_words.txt")
_STRESS = "1"
_FREQUENT = 16
"""Minimum occurrences of a word of which others are made (``is_derived``).

It is mostly read right from its spelling. Up to ``--most`` occurrences it has an entry all the same.
"""


def lexicon_lines(
    lexicons: Iterable[Entries], inflected: Mapping[str, str], counts: Counter[str], most: int
) -> list[str]:
    """Return the sorted lines for words that occur at most ``most`` times.

    lexicons: word -> the teacher's symbols, or several readings. The first one has the words, the others can only show
    that a word has another reading. inflected: more words, with one reading each. counts: occurrences by word in lower
    case.
    """
    first, *others = lexicons
    readings = defaultdict[str, set[str | None]](set)
    for lexicon in (first, inflected, *others):
        for word, symbols in lexicon.items():
            readings[word.lower()].add(notation(symbols) if isinstance(symbols, str) else None)
    words = {word.lower() for word in (*first, *inflected)}
    certain = {word: phonemes for word in words if (phonemes := _certain(readings[word])) is not None}
    frequent = {word for word, count in counts.items() if count >= _FREQUENT}
    return sorted(
        f"{word} {phonemes}"
        for word, phonemes in certain.items()
        if counts[word] <= most and WORD.fullmatch(word) and word not in _EXCLUDED
        if phonemes.count(_STRESS) == 1 and not is_derived(word, phonemes, frequent, certain)
    )


def _certain(readings: Collection[str | None]) -> str | None:
    """Return the only reading; None if there are several."""
    return next(iter(readings)) if len(readings) == 1 else None


def inflections(lexicon: Any, texts: Iterable[str]) -> dict[str, str]:
    """Return the teacher's symbols of the words of ``texts`` that are inflections of words of the lexicon.

    lexicon: ``hibari.g2p.lexicon.Lexicon``. Names ("Dolores") only look like inflections, so words that are mostly
    capitalized do not count, nor do inflections of words with several readings.
    """
    words = Counter(word for text in texts for word in WORD.findall(text))
    golds, found = lexicon.golds.d, {}
    context = SimpleNamespace(future_vowel=None, future_to=False)
    for word, count in words.items():
        if not word.islower() or word in golds or words[word.capitalize()] > count:
            continue
        if any(isinstance(golds.get(stem), Mapping) for stem in stems(word)):
            continue
        for inflect in (lexicon.stem_s, lexicon.stem_ed, lexicon.stem_ing):
            symbols = inflect(word, "NN", None, context)[0]
            if symbols:
                found[word] = symbols
                break
    return found


def misread_words(file: Path = MISREAD) -> dict[str, str]:
    """Return word -> phonemes from lines of both, separated by one space. Lines that start with ``#`` are comments.

    Raises ValueError for another line.
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ") for line in lines if not line.startswith("#"))


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs, in lower case."""
    return Counter(word.lower() for text in texts for word in WORD.findall(text))


def main() -> None:
    """Write the file."""
    import zopfli.gzip  # the file is 10 % smaller than with gzip
    from hibari.g2p import G2P

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, default=Path(".pocket/texts.jsonl"), help="output of texts.py")
    parser.add_argument("--most", type=int, default=60, help="maximum occurrences of a word in the texts")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    args = parser.parse_args()
    texts = [each.text for each in read_sentences(args.texts)]
    counts = word_counts(texts)
    lexicon = G2P(british=False).lexicon
    inflected = inflections(lexicon, texts)
    lines = lexicon_lines([lexicon.golds.d, lexicon.silvers.d], inflected, counts, args.most)
    entries = dict(line.split(" ") for line in lines) | READINGS | misread_words()
    lines = sorted(f"{word} {phonemes}" for word, phonemes in entries.items())
    data = zopfli.gzip.compress("".join(f"{line}\n" for line in lines).encode())
    args.out.write_bytes(data)
    print(f"{len(lines)} words, {len(data) / 1000:.0f} kB")


if __name__ == "__main__":
    main()

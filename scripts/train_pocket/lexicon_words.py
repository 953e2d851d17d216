"""Writes word lists as raw texts: the words of the lexicon of ``hibari-tts``, whose pronunciation is certain."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

Entries = Mapping[str, str | Mapping[str, str]]

_WORD = re.compile(r"[a-z]{3,16}")
_PROPER = re.compile(r"[A-Z][a-z]{2,13}")
_BASE = re.compile(r"[a-z]{3,12}(?<!s)")
"""A word without an inflection that ends in s, which fits the templates."""


def both_readings(american: Entries, british: Entries) -> tuple[list[str], list[str]]:
    """Return the words that are read differently as noun and as verb, with the tags of both readings."""
    nouns, verbs = [], []
    for word, readings in american.items():
        if not _BASE.fullmatch(word) or isinstance(readings, str) or isinstance(british.get(word, ""), str):
            continue
        noun = "NOUN" if "NOUN" in readings else "DEFAULT"
        verb = "VERB" if "VERB" in readings else "DEFAULT"
        if readings.get(noun) and readings.get(verb) and readings[noun] != readings[verb]:
            nouns.append(f"{word}<{noun}>")
            verbs.append(f"{word}<{verb}>")
    return nouns, verbs


def lists(american: Entries, british: Entries) -> dict[str, list[str]]:
    """Return the lines of each file: words and proper names that both lexicons know, and words with two readings."""
    known = sorted(american.keys() & british.keys())
    nouns, verbs = both_readings(american, british)
    return {
        "words": _matching(known, _WORD),
        "proper": _matching(known, _PROPER),
        "noun_readings": nouns,
        "verb_readings": verbs,
    }


def _matching(words: Iterable[str], pattern: re.Pattern[str]) -> list[str]:
    return [word for word in words if pattern.fullmatch(word)]


def main() -> None:
    """Write the lists, one entry per line."""
    from hibari.g2p import G2P

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the raw texts, for instance SOURCES/lexicon")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    american, british = (G2P(british=british).lexicon.golds.d for british in (False, True))
    for name, entries in lists(american, british).items():
        (options.out / f"{name}.txt").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
        print(f"{name}: {len(entries)}")


if __name__ == "__main__":
    main()

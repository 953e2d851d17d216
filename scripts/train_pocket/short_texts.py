"""Plans very short texts for the named voices, to fine-tune a checkpoint on a CPU.

Writes plan.jsonl.gz and speakers.json. The texts need no raw texts: they are those of ``grammar/typed/short.txt`` whose
words are in this repository. Most have one or two words. None is a text of the judge.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from scripts.train_pocket.config import load
from scripts.train_pocket.grammar_sentences import FOLDER, Fill, Grammar, word_lists
from scripts.train_pocket.numbers import GENERATORS
from scripts.train_pocket.phonemes import Phonemizer
from scripts.train_pocket.plan import Phonemize, Words
from scripts.train_pocket.speakers import Speaker, write_speakers
from scripts.train_pocket.text_cleaning import key
from scripts.train_pocket.texts import as_spoken, judge_texts
from scripts.train_pocket.utterances import PlannedUtterance, write_plan
from scripts.train_pocket.voices import named_speakers

_SLOT = re.compile(r"\{(\w+?)(?:_c)?\}")
_SAME_AS = {"noun": "object", "adjective": "thing_quality", "verb": "say", "adverb": "manner"}
"""Slots for words of WordNet -> lists of this repository that replace them."""
_MAX_CHARACTERS = 28
_SPEED = (0.92, 1.1)


def short_texts(source: Random) -> Iterator[str]:
    """Yield different texts endlessly, as the text front end writes them."""
    own = {**word_lists(), **word_lists(FOLDER / "typed_words.yaml")}
    fills: dict[str, Fill] = own | {slot: own[name] for slot, name in _SAME_AS.items()}
    templates = (FOLDER / "typed" / "short.txt").read_text(encoding="utf-8").splitlines()
    known = fills.keys() | GENERATORS.keys()
    usable = [each for each in templates if set(_SLOT.findall(each)) <= known]
    judged, seen = {key(text) for text in judge_texts()}, set[str]()
    for sentence in Grammar({slot: [] for slot in _SAME_AS}, source, usable, fills).sentences():
        text = as_spoken(sentence)
        if len(text) <= _MAX_CHARACTERS and text not in seen and key(text) not in judged:
            seen.add(text)
            yield text


def plan(
    texts: Iterator[str],
    counts: dict[str, int],
    speakers: dict[str, Speaker],
    phonemize: Phonemize,
    source: Random,
    words: Words = lambda text: "",
) -> Iterator[PlannedUtterance]:
    """Yield ``counts`` utterances of each voice, in random order. Texts that the teacher cannot read are skipped."""
    names = [name for name, count in counts.items() for _ in range(count)]
    source.shuffle(names)
    for number, name in enumerate(names):
        accent = speakers[name].accent
        text, phonemes = next((text, found) for text in texts if (found := phonemize(text, accent)))
        yield PlannedUtterance(number, text, phonemes, name, round(source.uniform(*_SPEED), 3), accent, words(text))


def _voice_count(argument: str) -> tuple[str, int]:
    name, _, number = argument.partition("=")
    known = load().voices.named
    if name not in known or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"must be NAME=COUNT with a NAME of {', '.join(known)}, got {argument!r}")
    return name, int(number)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    help_counts = "a named voice, and its number of texts"
    parser.add_argument("counts", nargs="+", type=_voice_count, metavar="NAME=COUNT", help=help_counts)
    parser.add_argument("--vocabulary", type=Path, required=True, help="the teacher's vocab.json")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    pocket = load()
    speakers, source = named_speakers(pocket.voices), Random(f"short {pocket.seed}")
    args.out.mkdir(parents=True, exist_ok=True)
    texts, phonemizer = short_texts(source), Phonemizer(args.vocabulary)
    write_plan(
        args.out / "plan.jsonl.gz", plan(texts, dict(args.counts), speakers, phonemizer, source, phonemizer.words)
    )
    write_speakers(args.out / "speakers.json", speakers)


if __name__ == "__main__":
    main()

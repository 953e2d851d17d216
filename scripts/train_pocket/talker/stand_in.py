"""Artificial data to test the training: each letter has codes, which also depend on the speaker."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scripts.train_pocket import codes as codes_file
from scripts.train_pocket.config import DEFAULT, Pocket, load
from scripts.train_pocket.utterances import PlannedUtterance, write_plan
from tests.support.random_checkpoint.tokenizer import write_tokenizer

_SYLLABLES = "ba de ki lo mu na pe ri so tu wa ze".split()
_LETTERS = 128
_BOOKS = 16


def write_stand_in(folder: Path, pocket: Pocket, *, utterances: int, speakers: int, words: tuple[int, int]) -> None:
    """Write plan.jsonl.gz, tokenizer/, codes/ and xvectors.npz.

    speakers: number of speakers in addition to the named ones. words: minimum and maximum per utterance.
    """
    random = np.random.default_rng(pocket.seed)
    names = [*pocket.voices.named, *(f"mixed-{number}" for number in range(speakers))]
    plan = [_utterance(number, names, words, random) for number in range(utterances)]
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder / "tokenizer")
    write_plan(folder / "plan.jsonl.gz", plan)
    codes_file.write(folder / "codes", _codes(plan, names, pocket.codec.codebook_size, random))
    _write_vectors(folder / "xvectors.npz", plan, names, pocket.talker.model.hidden, random)


def _utterance(number: int, names: list[str], words: tuple[int, int], random: np.random.Generator) -> PlannedUtterance:
    count = int(random.integers(words[0], words[1] + 1))
    syllables = ["".join(random.choice(_SYLLABLES, int(random.integers(1, 4)))) for _ in range(count)]
    text = " ".join(syllables).capitalize() + "."
    return PlannedUtterance(number, text, text, str(random.choice(names)), 1.0, "american")


def _codes(
    plan: list[PlannedUtterance], names: list[str], size: int, random: np.random.Generator
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield ids and codes of one or two frames per letter. They depend on letter and speaker; some are random."""
    letters = random.integers(0, size, (_LETTERS, _BOOKS))
    speaker_codes = {name: random.integers(0, size, _BOOKS) * (np.arange(_BOOKS) % 3 == 1) for name in names}
    for each in plan:
        letters_of_text = np.frombuffer(each.text.lower().encode(), np.uint8) % _LETTERS
        repeated = np.repeat(letters_of_text, 1 + (random.random(len(letters_of_text)) < 0.3))
        codes = (letters[repeated] + speaker_codes[each.speaker]) % size
        is_random = random.random(codes.shape) < np.linspace(0.0, 0.6, _BOOKS)
        yield each.id, np.where(is_random, random.integers(0, size, codes.shape), codes)


def _write_vectors(
    file: Path, plan: list[PlannedUtterance], names: list[str], width: int, random: np.random.Generator
) -> None:
    centers = {name: random.standard_normal(width) for name in names}
    selected = plan[: 12 * len(names)]
    vectors = [centers[each.speaker] + 0.3 * random.standard_normal(width) for each in selected]
    speakers, ids = np.array([each.speaker for each in selected]), np.array([each.id for each in selected])
    np.savez(file, speakers=speakers, ids=ids, vectors=np.array(vectors, np.float16))


def main() -> None:
    """Write the data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--utterances", type=int, default=20000)
    parser.add_argument("--speakers", type=int, default=200)
    parser.add_argument("--config", type=Path, default=DEFAULT)
    args = parser.parse_args()
    pocket = load(args.config)
    write_stand_in(args.out, pocket, utterances=args.utterances, speakers=args.speakers, words=(5, 20))


if __name__ == "__main__":
    main()

"""Trains the checkpoint's tokenizer, a byte-level BPE, and writes it in the published format (SPEC 1.3)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from engine.prompt.tokenizer import SPLIT_PATTERN
from scripts.train_pocket.config import load
from scripts.train_pocket.folder import SPECIAL_TOKENS
from scripts.train_pocket.phonemes import without_readings
from scripts.train_pocket.texts import read_sentences
from tests.support.random_checkpoint.tokenizer import tokenizer_config

_ROLES = ("assistant\n", "user\n")
_ROLE_REPETITIONS = 50_000
"""Repetitions of the roles in the training text, so that they become tokens early."""


def train(texts: Iterable[str], size: int) -> tuple[dict[str, int], list[str]]:
    """Return a vocabulary of ``size`` tokens, and the merges. Raises ValueError if the texts yield fewer tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_with_roles(texts), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    if len(model["vocab"]) != size:
        raise ValueError(f"the texts yield {len(model['vocab'])} tokens, expected {size}")
    return model["vocab"], [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]


def write(folder: Path, vocab: dict[str, int], merges: list[str]) -> None:
    """Write vocab.json, merges.txt and tokenizer_config.json. The special tokens follow the BPE tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    added = {token: len(vocab) + index for index, token in enumerate(SPECIAL_TOKENS)}
    _write(folder / "vocab.json", json.dumps(vocab, ensure_ascii=False))
    _write(folder / "merges.txt", "#version: 0.2\n" + "\n".join(merges) + "\n")
    _write(folder / "tokenizer_config.json", json.dumps(tokenizer_config(added, SPECIAL_TOKENS[1:]), indent=2) + "\n")


def _with_roles(texts: Iterable[str]) -> Iterator[str]:
    yield from texts
    for role in _ROLES:
        yield from (role for _ in range(_ROLE_REPETITIONS))


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


def main() -> None:
    """Train on texts.jsonl and write the folder ``tokenizer`` next to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".pocket"), help="folder with texts.jsonl")
    options = parser.parse_args()
    texts = [without_readings(sentence.text) for sentence in read_sentences(options.out / "texts.jsonl")]
    write(options.out / "tokenizer", *train(texts, load().texts.vocabulary))


if __name__ == "__main__":
    main()

"""Adds speech that a checkpoint makes itself to its fine-tuning data, against forgetting (self-distillation).

The named voices say sentences of this repository's documentation, with the checkpoint's own sampling parameters. No
sentence shares five consecutive words with a text of the judge.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest
from scripts.train_pocket import codes as codes_file
from scripts.train_pocket.text_cleaning import HeldOutSentences
from scripts.train_pocket.texts import as_spoken, judge_texts
from scripts.train_pocket.utterances import FIRST_RECORDED, PlannedUtterance, read_plan, write_plan
from tests.support.talkers import native_talker, prepare, speak

_ROOT = Path(__file__).parents[2]
_PAGES = ("README.md", "docs/**/*.md")
_SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;'()\-%.]{30,130}[.!?]")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SLOTS = 8
_MAX_FRAMES = 200
"""Longer utterances are not used: the texts are shorter than that."""


def sentences() -> list[str]:
    """Return the plain sentences of the documentation, as the text front end writes them."""
    pages = [page for pattern in _PAGES for page in sorted(_ROOT.glob(pattern))]
    lines = [line.lstrip("- ") for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    parts = [part for line in lines for part in _BETWEEN_SENTENCES.split(_LINK.sub(r"\1", line))]
    texts = [as_spoken(part) for part in dict.fromkeys(parts) if _SENTENCE.fullmatch(part)]
    excluded = HeldOutSentences(judge_texts())
    return [text for text in texts if not excluded.overlaps(text)]


def utterances(checkpoint: Checkpoint, texts: Sequence[str], seed: int) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Yield speaker, text and codes [frames, 16]. The named voices speak in turn."""
    talker, names = native_talker(checkpoint, slots=_SLOTS), list(checkpoint.model.talker.speakers)
    for first in range(0, len(texts), _SLOTS):
        group = [
            (names[number % len(names)], text, SamplingParams(seed=seed + number, max_new_tokens=_MAX_FRAMES))
            for number, text in enumerate(texts[first : first + _SLOTS], start=first)
        ]
        requests = [SpeechRequest(text, speaker=name, sampling=sampling) for name, text, sampling in group]
        made = speak(talker, [prepare(request, checkpoint) for request in requests])
        for (name, text, _), generated in zip(group, made, strict=True):
            if generated.finish is FinishReason.STOP and generated.frames:
                yield name, text, generated.codes


def main() -> None:
    """Append utterances to plan.jsonl.gz, and write their codes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with plan.jsonl.gz and codes/")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the talker's layers are compiled and have their own threads
    plan_file, codes_folder = args.data / "plan.jsonl.gz", args.data / "codes"
    planned = list(read_plan(plan_file))
    texts = sentences()
    Random(args.seed).shuffle(texts)
    coded: list[tuple[int, NDArray[np.int64]]] = []
    following = 1 + max(each.id for each in planned if each.id < FIRST_RECORDED)
    made = utterances(open_checkpoint(str(args.checkpoint)), texts[: args.sentences], args.seed)
    for number, (speaker, text, codes) in enumerate(made, start=following):
        planned.append(PlannedUtterance(number, text, "", speaker, 1.0, "american"))  # only the teacher uses the accent
        coded.append((number, codes))
    files = [int(file.stem.removeprefix("codes-")) for file in codes_folder.glob("codes-*.npz")]
    codes_file.write(codes_folder, coded, numbers=count(1 + max(files)))
    Random(args.seed).shuffle(planned)
    write_plan(plan_file, planned)
    print(f"{len(coded)} utterances, {sum(len(codes) for _, codes in coded)} frames")


if __name__ == "__main__":
    main()

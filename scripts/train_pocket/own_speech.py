"""Adds a checkpoint's own speech to the data of its further training, so that it stays as it is otherwise.

The named voices say sentences of this repository's documentation, with the checkpoint's usual sampling parameters.
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
from engine.config import EngineConfig, TalkerConfig
from engine.prompt.builder import build_prompt
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest
from engine.talker.base import Talker
from engine.talker.loading import load_native_talker
from engine.talker.requests import resolve
from scripts.train_pocket import codes as codes_file
from scripts.train_pocket.texts import as_spoken
from scripts.train_pocket.utterances import Accent, PlannedUtterance, read_plan, write_plan

_ROOT = Path(__file__).parents[2]
_PAGES = ("README.md", "docs/**/*.md")
_SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;'()\-%.]{30,130}[.!?]")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SLOTS = 8
_MAX_FRAMES = 200
_FIRST_FILE = 900
"""Number of the first file of codes. Those of the teacher's speech have smaller ones."""

Codes = NDArray[np.int16]


def sentences() -> list[str]:
    """Return the plain sentences of the documentation, as the text front end writes them."""
    pages = [page for pattern in _PAGES for page in sorted(_ROOT.glob(pattern))]
    lines = [line.lstrip("- ") for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    parts = [part for line in lines for part in _BETWEEN_SENTENCES.split(_LINK.sub(r"\1", line))]
    return [as_spoken(part) for part in dict.fromkeys(parts) if _SENTENCE.fullmatch(part)]


def speak(talker: Talker, checkpoint: Checkpoint, requests: Sequence[SpeechRequest]) -> list[Codes | None]:
    """Return the codes [frames, 16] of each request; None for those that do not end. They must fit in the slots."""
    frames: list[list[Codes]] = [[] for _ in requests]
    finished: dict[int, FinishReason] = {}
    for stream, request in enumerate(requests):
        prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
        talker.admit(stream, prompt, resolve(request.sampling, checkpoint.generation))
    while talker.runnable(()):
        step = talker.step(())
        for stream, frame in zip(step.streams, step.codes, strict=True):
            frames[stream].append(frame)
        finished |= dict(step.finished)
    return [
        np.stack(each) if finished[stream] is FinishReason.STOP and each else None for stream, each in enumerate(frames)
    ]


def utterances(checkpoint: Checkpoint, texts: Sequence[str], seed: int) -> Iterator[tuple[str, str, Codes]]:
    """Yield speaker, text and codes. The named voices speak in turn."""
    config = EngineConfig(model=str(checkpoint.folder), dtype="float32", talker=TalkerConfig(slots=_SLOTS))
    talker = load_native_talker(checkpoint, config, torch.device("cpu"))
    names = list(checkpoint.model.talker.speakers)
    for first in range(0, len(texts), _SLOTS):
        requests = [
            SpeechRequest(
                text,
                speaker=names[number % len(names)],
                sampling=SamplingParams(seed=seed + number, max_new_tokens=_MAX_FRAMES),
            )
            for number, text in enumerate(texts[first : first + _SLOTS], start=first)
        ]
        for request, codes in zip(requests, speak(talker, checkpoint, requests), strict=True):
            if codes is not None and request.speaker is not None:
                yield request.speaker, request.text, codes


def main() -> None:
    """Append utterances to plan.jsonl.gz, and write their codes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with plan.jsonl.gz and codes/")
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the talker's layers are compiled and have their own threads
    plan_file = args.data / "plan.jsonl.gz"
    planned = list(read_plan(plan_file))
    texts = sentences()
    Random(args.seed).shuffle(texts)
    accent: Accent = "american"  # only the teacher uses it
    coded: list[tuple[int, Codes]] = []
    made = utterances(open_checkpoint(str(args.checkpoint)), texts[: args.sentences], args.seed)
    for number, (speaker, text, codes) in enumerate(made, start=1 + max(each.id for each in planned)):
        planned.append(PlannedUtterance(number, text, "", speaker, 1.0, accent))
        coded.append((number, codes))
    codes_file.write(args.data / "codes", coded, numbers=count(_FIRST_FILE))
    Random(args.seed).shuffle(planned)
    write_plan(plan_file, planned)
    print(f"{len(coded)} utterances, {sum(len(codes) for _, codes in coded)} frames")


if __name__ == "__main__":
    main()

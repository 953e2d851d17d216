"""Measures how far the logits of quantized weights are from those of exact ones.

    python -m benchmarks.cpu.quantization FOLDER [PACKED ..] [--frames 40]

The talker with exact weights speaks some sentences. The talkers with int8 and int4, and those of checkpoints that
``sonant pack`` has written, then get the same codes as input
(teacher forcing), so that an error does not change what follows. For codebook 0 and for codebooks 1 to 15 it prints

- the error of the logits: root mean square, relative to the standard deviation of the exact logits,
- the agreement: how often the most likely code is the same,
- the Kullback-Leibler divergence of the two distributions, in nats.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.config import EngineConfig, TalkerConfig
from engine.device.selection import prepare_torch
from engine.prompt.builder import build_prompt
from engine.protocol.request import CODEBOOKS, SamplingParams, SpeechRequest, WeightFormat
from engine.talker.loading import load_native_talker
from engine.talker.native.talker import NativeTalker
from engine.talker.requests import resolve
from engine.talker.sampling import Sampler
from server.bench.workload import SENTENCES


class Sampled(NamedTuple):
    """The logits [1, vocab] of a code, and the code [1]."""

    logits: Tensor
    code: Tensor


class Figures(NamedTuple):
    """See the module."""

    error: float
    agreement: float
    divergence: float


def speak(talker: NativeTalker, checkpoint: Checkpoint, text: str, frames: int, forced: list[Sampled]) -> list[Sampled]:
    """Return what each code of an utterance was sampled from. forced: the codes to continue with, if not empty."""
    speaker = next(iter(checkpoint.model.talker.speakers))
    request = SpeechRequest(text, speaker=speaker, sampling=SamplingParams(seed=0, max_new_tokens=frames + 1))
    recorded: list[Sampled] = []
    sample: Callable[[Sampler, Tensor, Tensor], Tensor] = Sampler.__call__

    def record(sampler: Sampler, logits: Tensor, uniform: Tensor) -> Tensor:
        before = logits.clone()
        code = forced[len(recorded)].code if forced else sample(sampler, logits, uniform)
        recorded.append(Sampled(before, code))
        return code

    with mock.patch.object(Sampler, "__call__", record):
        prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
        talker.admit(0, prompt, resolve(request.sampling, checkpoint.generation))
        while talker.runnable(()):
            talker.step(())
    return recorded


def compare(exact: list[Sampled], other: list[Sampled]) -> Figures:
    """Return the figures of logits that belong to the same codes."""
    first, second = (torch.cat([each.logits for each in sampled]) for sampled in (exact, other))
    possible = first.isfinite() & second.isfinite()
    error = ((first - second)[possible].square().mean() / first[possible].var()).sqrt()
    agreement = (first.argmax(-1) == second.argmax(-1)).float().mean()
    divergence = F.kl_div(second.log_softmax(-1), first.log_softmax(-1), reduction="none", log_target=True)
    return Figures(error.item(), agreement.item(), divergence.nan_to_num(0).sum(-1).mean().item())


def main() -> None:
    """Print the figures of int8 and int4."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkpoint with named voices")
    parser.add_argument("packed", type=Path, nargs="*", help="the same checkpoint, packed")
    parser.add_argument("--sentences", type=int, default=3)
    parser.add_argument("--frames", type=int, default=40, help="maximum frames of a sentence")
    args = parser.parse_args()
    prepare_torch(EngineConfig(model=str(args.folder)))
    checkpoint = open_checkpoint(str(args.folder))
    texts = SENTENCES[: args.sentences]
    exact: list[list[Sampled]] = []
    formats: tuple[WeightFormat, ...] = ("exact", "int8", "int4")
    contenders = [(str(weights), checkpoint, weights) for weights in formats]
    for folder in args.packed:
        packed = open_checkpoint(str(folder))
        assert packed.model.packing is not None
        contenders.append((f"{folder.name}, packed", packed, packed.model.packing.weights))
    for name, source, weights in contenders:
        config = EngineConfig(model=str(source.folder), device="cpu", talker=TalkerConfig(slots=1, weights=weights))
        talker = load_native_talker(source, config, torch.device("cpu"))
        forced = exact or [[] for _ in texts]
        spoken = [
            speak(talker, checkpoint, text, args.frames, codes) for text, codes in zip(texts, forced, strict=True)
        ]
        if not exact:
            exact = spoken
            continue
        both = zip(exact, spoken, strict=True)
        pairs = [pair for one, other in both for pair in enumerate(zip(one, other, strict=True))]
        books = {
            "codebook 0": [pair for number, pair in pairs if number % CODEBOOKS == 0],
            "codebooks 1 to 15": [pair for number, pair in pairs if number % CODEBOOKS],
        }
        for book, sampled in books.items():
            figures = compare([first for first, _ in sampled], [second for _, second in sampled])
            print(
                f"{name}, {book}: error of the logits {figures.error:.3f}, agreement {figures.agreement:.1%}, "
                f"divergence {figures.divergence:.4f} nats, {len(sampled)} codes"
            )


if __name__ == "__main__":
    main()

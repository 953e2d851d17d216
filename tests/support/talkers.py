"""Talkers of random checkpoints, and utterances that they generate without a server."""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
import torch

from engine.checkpoint.folder import Checkpoint
from engine.config import EngineConfig, TalkerConfig
from engine.prompt.builder import Prompt, build_prompt
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest, WeightFormat
from engine.talker import loading
from engine.talker.base import Sampling, StepOutput, Talker
from engine.talker.loading import load_native_talker
from engine.talker.native.talker import NativeTalker
from engine.talker.requests import resolve

WORDS = "Hello world this is a test of the speech server quick brown fox jumps one two three calm warm".split()
DEVICE = torch.device(os.environ.get("TEST_DEVICE", "cpu"))
"""The device of the tests. On a GPU (TEST_DEVICE=cuda) results are equal except for rounding, on a CPU bit for bit."""
bit_for_bit = pytest.mark.skipif(DEVICE.type != "cpu", reason="results are bit-identical only on a CPU")


@contextmanager
def exact_layers(kind: str) -> Iterator[None]:
    """Run exact weights in compiled kernels (kind: compiled), or in plain torch as on a GPU (plain)."""
    with pytest.MonkeyPatch.context() as patch:
        if kind == "plain":
            patch.setattr(loading, "_compiled", lambda config, device: False)
        yield


def native_talker(
    checkpoint: Checkpoint,
    slots: int = 8,
    prefill_chunk: int = 64,
    weights: WeightFormat = "exact",
    context: int = 1024,
) -> NativeTalker:
    config = EngineConfig(
        model=str(checkpoint.folder),
        dtype="float32",
        talker=TalkerConfig(slots=slots, context=context, prefill_chunk=prefill_chunk, weights=weights),
    )
    return load_native_talker(checkpoint, config, DEVICE)


def prepare(request: SpeechRequest, checkpoint: Checkpoint) -> tuple[Prompt, Sampling]:
    prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
    return prompt, resolve(request.sampling, checkpoint.generation)


class Output(NamedTuple):
    """Output of one step for one stream: the codes int16 [16] of a new frame, or the finish reason."""

    stream: int
    codes: np.ndarray | None
    finish: FinishReason | None = None


def outputs(step: StepOutput) -> list[Output]:
    """Return the output of a step for each stream."""
    frames = [Output(stream, codes) for stream, codes in zip(step.streams, step.codes, strict=True)]
    return frames + [Output(stream, None, reason) for stream, reason in step.finished]


@dataclass
class Generated:
    """The output of a talker for one utterance."""

    frames: list[np.ndarray] = field(default_factory=list)
    finish: FinishReason | None = None

    @property
    def codes(self) -> np.ndarray:
        return np.array(self.frames, np.int64).reshape(-1, 16)


def speak(
    talker: Talker,
    utterances: Sequence[tuple[Prompt, Sampling]],
    joins: Mapping[int, int] | None = None,
    cancels: Mapping[int, int] | None = None,
) -> list[Generated]:
    """Run the talker until all utterances have ended, and return their output.

    joins: step at which an utterance is admitted, by index; 0 by default. cancels: step at which it is cancelled.
    """
    generated = [Generated() for _ in utterances]
    order = sorted(range(len(utterances)), key=lambda i: (joins or {}).get(i, 0))
    step = 0
    while order or talker.runnable(()):
        while order and (joins or {}).get(order[0], 0) <= step and talker.free_slots:
            number = order.pop(0)
            talker.admit(number, *utterances[number])
        for number, when in (cancels or {}).items():
            if when == step:
                talker.cancel(number)
        for output in outputs(talker.step(())):
            if output.codes is not None:
                generated[output.stream].frames.append(output.codes)
            generated[output.stream].finish = output.finish
        step += 1
    return generated


def various_requests(checkpoint: Checkpoint, count: int) -> Iterator[SpeechRequest]:
    """Yield requests with different lengths, layouts, voices, parameters and seeds."""
    generator = random.Random(7)
    speakers = list(checkpoint.model.talker.speakers)
    for seed in range(count):
        yield SpeechRequest(
            text=" ".join(generator.choices(WORDS, k=generator.randint(1, 40))),
            speaker=generator.choice(speakers),
            language=generator.choice(["auto", "English", "German"]),
            instructions=generator.choice([None, "Very happy."]),
            text_layout=generator.choice(["streaming", "full"]),
            sampling=SamplingParams(
                temperature=generator.choice([0.0, 0.6, 0.9, 1.4]),
                top_k=generator.choice([0, 5, 50]),
                top_p=generator.choice([1.0, 0.8]),
                repetition_penalty=generator.choice([1.0, 1.05, 1.3]),
                subtalker_temperature=generator.choice([0.0, 0.9]),
                subtalker_top_k=generator.choice([0, 10, 50]),
                subtalker_top_p=generator.choice([1.0, 0.9]),
                max_new_tokens=generator.randint(2, 50),
                seed=seed,
            ),
        )


def assert_same(
    generated: Sequence[Generated], expected: Sequence[Generated], except_for: Collection[int] = ()
) -> None:
    for number, (one, other) in enumerate(zip(generated, expected, strict=True)):
        if number not in except_for:
            assert np.array_equal(one.codes, other.codes), number
            assert one.finish is other.finish, number

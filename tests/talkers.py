"""Native talkers on untrained checkpoints, and utterances run through them without a server."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from engine.checkpoint import Checkpoint
from engine.config import EngineConfig, TalkerConfig
from engine.prompt import Prompt, build_prompt
from engine.request import FinishReason, SpeechRequest
from engine.talker.base import Sampling
from engine.talker.intake import resolve
from engine.talker.native import NativeTalker
from engine.worker import load_talker

DEVICE = torch.device(os.environ.get("TEST_DEVICE", "cpu"))
"""Parity holds on a GPU too: TEST_DEVICE=cuda. Equality bit for bit is promised on a CPU."""


def native_talker(checkpoint: Checkpoint, slots: int = 8, prefill_chunk: int = 64) -> NativeTalker:
    config = EngineConfig(
        model=str(checkpoint.folder),
        dtype="float32",
        talker=TalkerConfig(slots=slots, context=1024, prefill_chunk=prefill_chunk),
    )
    return load_talker(checkpoint, config, DEVICE)


def prepare(request: SpeechRequest, checkpoint: Checkpoint) -> tuple[Prompt, Sampling]:
    prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
    return prompt, resolve(request.sampling, checkpoint.generation)


@dataclass
class Spoken:
    """What came of an utterance."""

    frames: list[np.ndarray] = field(default_factory=list)
    finish: FinishReason | None = None

    @property
    def codes(self) -> np.ndarray:
        return np.array(self.frames, np.int64).reshape(-1, 16)


def speak(
    talker: NativeTalker,
    utterances: Sequence[tuple[Prompt, Sampling]],
    joins: Mapping[int, int] | None = None,
    cancels: Mapping[int, int] | None = None,
) -> list[Spoken]:
    """Run utterances to their end; number i joins at step ``joins[i]`` (0) and is cancelled at ``cancels[i]``."""
    spoken = [Spoken() for _ in utterances]
    order = sorted(range(len(utterances)), key=lambda i: (joins or {}).get(i, 0))
    step = 0
    while order or talker.runnable(()):
        while order and (joins or {}).get(order[0], 0) <= step and talker.free_slots:
            number = order.pop(0)
            talker.admit(number, *utterances[number])
        for number, when in (cancels or {}).items():
            if when == step:
                talker.cancel(number)
        for output in talker.step(()):
            if output.codes is not None:
                spoken[output.stream].frames.append(output.codes)
            spoken[output.stream].finish = output.finish
        step += 1
    return spoken

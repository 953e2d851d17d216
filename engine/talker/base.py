"""What stage 1 asks of a talker, whatever runs it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.prompt.builder import Prompt
from engine.protocol.request import FinishReason
from engine.talker.sampling import Draws


@dataclass(frozen=True, slots=True)
class Sampling:
    """A request's sampling with every default filled in.

    codebook0, residual: how the talker's and the code predictor's codes are drawn.
    max_new_tokens: codebook-0 tokens drawn at most; the last never becomes a frame (SPEC 4).
    """

    codebook0: Draws
    residual: Draws
    repetition_penalty: float
    max_new_tokens: int
    seed: int


class TalkerOutput(NamedTuple):
    """One step of one stream: the codes int16 [16] of a new frame, or why there will be no more."""

    stream: int
    codes: NDArray[np.int16] | None
    finish: FinishReason | None = None


class Talker(Protocol):
    """A batch of utterances, each one frame further at every step."""

    context: int
    """Positions an utterance can have: prompt rows and frames."""

    @property
    def free_slots(self) -> int:
        """How many more utterances can be admitted now."""

    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot; it joins the next step.

        text_open: more text follows the prompt's through ``append_text``.
        """

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Text ids that follow those of the prompt; ``last`` closes it. Void for an utterance that has ended."""

    def cancel(self, stream: int) -> None:
        """Forget an utterance; its slot is free at once. Unknown streams are ignored."""

    def runnable(self, held: Collection[int]) -> bool:
        """Whether a step would do anything while the streams ``held`` stand still."""

    def step(self, held: Collection[int]) -> list[TalkerOutput]:
        """One step of every stream that is not ``held``: prompts are read on, the others make one frame."""

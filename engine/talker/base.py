"""The talker interface of stage 1, for every backend."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.prompt.builder import Prompt
from engine.protocol.request import FinishReason
from engine.talker.sampling_params import CodebookParams


@dataclass(frozen=True, slots=True)
class Sampling:
    """A request's sampling parameters, with all defaults filled in.

    codebook0: for the talker's codes. residual: for the code predictor's codes, of codebooks 1 to 15.
    max_new_tokens: maximum number of codebook-0 tokens; the last one never becomes a frame (SPEC 4).
    """

    codebook0: CodebookParams
    residual: CodebookParams
    max_new_tokens: int
    seed: int


class StepOutput(NamedTuple):
    """What a step made.

    streams: the streams with a new frame. codes: int16 [len(streams), 16], their frames. finished: the streams that
    have ended after these frames, and why.
    """

    streams: list[int]
    codes: NDArray[np.int16]
    finished: list[tuple[int, FinishReason]]


FRAMES_IN_FLIGHT = 1
"""Maximum number of frames that a stream may still get after it is paused."""


def no_other_work() -> bool:
    """Return False: for a step beside which there is nothing else to do."""
    return False


class Talker(Protocol):
    """Generates the frames of a batch of utterances, one frame per utterance and step."""

    context: int
    """Maximum number of positions of an utterance: prompt rows plus frames."""

    @property
    def free_slots(self) -> int:
        """Number of utterances that can be admitted now."""

    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot. It joins the next step.

        text_open: more text will follow through ``append_text``.
        """

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Append text ids after those of the prompt; ``last`` closes the text. No-op if the utterance has ended."""

    def cancel(self, stream: int) -> None:
        """Abort an utterance. Its slot is free at once. Unknown streams are ignored."""

    def runnable(self, paused: Collection[int]) -> bool:
        """Return whether a step would do anything while the streams ``paused`` are paused."""

    def step_due_in(self, expects_request: Callable[[], bool]) -> float:
        """Return the seconds until the next step should start; requests that arrive before can take part in it.

        expects_request: whether a request will soon be admitted, for which the step may wait.
        """

    def step(self, paused: Collection[int], other_work: Callable[[], bool] = no_other_work) -> StepOutput:
        """Run one step: prefill continues, and every other stream that is not in ``paused`` makes one frame.

        The output may be that of an earlier step, so a paused stream still gets up to ``FRAMES_IN_FLIGHT`` frames.

        other_work: does other work for a few milliseconds at most, and returns whether there was any. It raises
        nothing. A talker may call it while a GPU computes, from any thread.
        """

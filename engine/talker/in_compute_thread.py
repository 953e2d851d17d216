"""A talker that computes in a thread which it shares with Code2Wav."""

from __future__ import annotations

from collections.abc import Callable, Collection

from engine.device.compute_thread import ComputeThread
from engine.prompt.builder import Prompt
from engine.talker.base import Sampling, StepOutput, Talker, no_other_work


class ComputeThreadTalker:
    """``engine.talker.base.Talker`` whose products run in a ComputeThread."""

    def __init__(self, talker: Talker, compute: ComputeThread) -> None:
        self.context = talker.context
        self._talker, self._compute = talker, compute

    @property
    def free_slots(self) -> int:
        """Number of utterances that can be admitted now."""
        return self._talker.free_slots

    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot."""
        self._compute.run(self._talker.admit, stream, prompt, sampling, text_open=text_open)

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Append text ids after those of the prompt."""
        self._compute.run(self._talker.append_text, stream, ids, last=last)

    def cancel(self, stream: int) -> None:
        """Abort an utterance."""
        self._talker.cancel(stream)

    def runnable(self, paused: Collection[int]) -> bool:
        """Return whether a step would do anything while the streams ``paused`` are paused."""
        return self._talker.runnable(paused)

    def step_due_in(self, expects_request: Callable[[], bool]) -> float:
        """Return the seconds until the next step should start."""
        return self._talker.step_due_in(expects_request)

    def step(self, paused: Collection[int], other_work: Callable[[], bool] = no_other_work) -> StepOutput:
        """Run one step."""
        return self._compute.run(self._talker.step, paused, other_work)

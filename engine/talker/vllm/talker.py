"""Stage 1 on vLLM: the same codes as the native talker's, a step later."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch

from engine.checkpoint.folder import Checkpoint
from engine.config import TalkerConfig
from engine.prompt.builder import Prompt
from engine.protocol.request import FinishReason
from engine.talker.base import Sampling, TalkerOutput
from engine.talker.gpu_step.inputs import Utterance
from engine.talker.vllm.installation import prepare_environment, require
from engine.talker.vllm.step_output import StepOutput

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from engine.device.memory import GpuMemory
    from engine.talker.vllm.core import TalkerCore

_FRUITLESS_STEPS = 2
"""Steps that start nothing, after which none will: those that could go on wait for room that others have, who stand.

The first may have done no more than preempt.
"""


class VllmTalker:
    """See ``engine.talker.base.Talker``. Not thread-safe: one thread admits, steps and cancels.

    While a step runs, the one before is handed out. What is made for a stream that is held by then is kept until it
    goes on.
    """

    def __init__(self, core: TalkerCore, config: TalkerConfig, *, eos: int) -> None:
        self.context = config.context
        self._core, self._slots, self._eos = core, config.slots, eos
        self._utterances: dict[int, Utterance] = {}
        self._requests: dict[str, Request] = {}
        self._by_key: dict[str, Utterance] = {}
        self._live: dict[int, Utterance] = {}
        self._made: dict[int, Utterance] = {}
        self._admitted = 0
        self._held: Collection[int] = ()
        self._fruitless = 0
        core.pause(lambda: self._standing(self._held))

    @property
    def free_slots(self) -> int:
        """How many more utterances can be admitted now."""
        return self._slots - len(self._utterances)

    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot; it joins the next step."""
        self._admitted += 1
        utterance = Utterance(stream, f"{stream}-{self._admitted}", prompt, sampling, list(prompt.trailing), text_open)
        self._requests[utterance.key] = self._core.add(utterance)
        self._utterances[stream] = self._by_key[utterance.key] = utterance
        if text_open:
            self._live[stream] = utterance
        self._fruitless = 0

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Text ids that follow those of the prompt; ``last`` closes it. Void for an utterance that has ended."""
        utterance = self._utterances.get(stream)
        if utterance is not None:
            utterance.append_text(ids, last=last)
            if last:
                del self._live[stream]
            self._fruitless = 0

    def cancel(self, stream: int) -> None:
        """Forget an utterance; its slot is free at once."""
        utterance = self._utterances.pop(stream, None)
        if utterance is not None and not utterance.finished:
            self._core.abort(utterance.key)
            self._forget(utterance)
        self._made.pop(stream, None)
        self._live.pop(stream, None)
        self._fruitless = 0

    def runnable(self, held: Collection[int]) -> bool:
        """Whether a step would do anything while the streams ``held`` stand still."""
        if self._core.under_way or any(stream not in held for stream in self._made):
            return True
        stuck = self._fruitless >= _FRUITLESS_STEPS and held == self._held
        return not stuck and self._has_work(held)

    def step(self, held: Collection[int]) -> list[TalkerOutput]:
        """One step of every stream that is not ``held``: prompts are read on, the others make one frame."""
        if held != self._held:
            self._held, self._fruitless = held, 0
        if self._core.under_way or self._has_work(held):
            drawn, started = self._core.step()
            for each in drawn:
                self._take(each)
            self._fruitless = 0 if drawn or started else self._fruitless + 1
        return self._hand_out()

    def close(self) -> None:
        """Give the device's memory back."""
        self._core.close()

    def _has_work(self, held: Collection[int]) -> bool:
        return len(self._standing(held)) < len(self._requests)

    def _standing(self, held: Collection[int]) -> set[str]:
        """Requests that must not make their next frame yet. Prompts are always read on.

        Only these can be: those that are held, have something made that has not been handed out, or lack text.
        """
        listened = [self._utterances[stream] for stream in held if stream in self._utterances]
        behind = {each.key for each in (*listened, *self._made.values()) if self._next_frame(each) >= 0}
        return behind | {each.key for each in self._live.values() if not each.knows_text(self._next_frame(each))}

    def _next_frame(self, utterance: Utterance) -> int:
        """Which frame its request makes next; negative while its prompt is read, and once it has no request."""
        request = self._requests.get(utterance.key)
        return -1 if request is None else request.num_computed_tokens - request.num_prompt_tokens

    def _take(self, drawn: StepOutput) -> None:
        """What a request drew is a frame, or its end (SPEC 4: the last token never becomes a frame)."""
        utterance = self._by_key[drawn.key]
        if drawn.codes.item(0) == self._eos:
            utterance.finish(FinishReason.STOP)
        elif drawn.last:
            utterance.finish(FinishReason.LENGTH)
        else:
            utterance.draw(drawn.codes)
        self._made[utterance.stream] = utterance
        if drawn.last:
            self._forget(utterance)

    def _forget(self, utterance: Utterance) -> None:
        del self._requests[utterance.key], self._by_key[utterance.key]

    def _hand_out(self) -> list[TalkerOutput]:
        """A frame at most of every stream that is not held, and its end if that follows."""
        handed: list[TalkerOutput] = []
        for stream, utterance in list(self._made.items()):
            if stream in self._held:
                continue
            outputs = utterance.outputs
            if outputs[0].finish is None:
                handed.append(outputs.popleft())
            if outputs and outputs[0].finish is not None:
                handed.append(outputs.popleft())
                del self._utterances[stream]
                self._live.pop(stream, None)
            if not outputs:
                del self._made[stream]
        return handed


def load_vllm_talker(
    checkpoint: Checkpoint,
    config: TalkerConfig,
    device: torch.device,
    dtype: torch.dtype,
    memory: GpuMemory | None = None,
) -> VllmTalker:
    """The checkpoint's talker on vLLM, its cache as large as ``memory`` says.

    Raises SetupError where vLLM is missing, or the device too small.
    """
    require()
    prepare_environment()
    from engine.talker.vllm.core import TalkerCore

    core = TalkerCore(checkpoint, config, device, dtype, memory)
    return VllmTalker(core, config, eos=checkpoint.model.talker.ids.eos)

"""Stage 1 on vLLM: produces the same codes as the native talker, one step later."""

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
"""After this many consecutive steps that start nothing, no later step starts anything either.

The requests that could run wait for cache blocks that paused requests hold. The first such step may only have
preempted a request.
"""


class VllmTalker:
    """``engine.talker.base.Talker`` on vLLM. Not thread-safe: one thread admits, steps and cancels.

    While a step runs, the outputs of the previous step are returned. Outputs of a stream that is paused by then are
    kept until the stream resumes.
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
        """Number of utterances that can be admitted now."""
        return self._slots - len(self._utterances)

    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot. It joins the next step."""
        self._admitted += 1
        utterance = Utterance(stream, f"{stream}-{self._admitted}", prompt, sampling, list(prompt.trailing), text_open)
        self._requests[utterance.key] = self._core.add(utterance)
        self._utterances[stream] = self._by_key[utterance.key] = utterance
        if text_open:
            self._live[stream] = utterance
        self._fruitless = 0

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Append text ids after those of the prompt; ``last`` closes the text. No-op if the utterance has ended."""
        utterance = self._utterances.get(stream)
        if utterance is not None:
            utterance.append_text(ids, last=last)
            if last:
                del self._live[stream]
            self._fruitless = 0

    def cancel(self, stream: int) -> None:
        """Abort an utterance. Its slot is free at once."""
        utterance = self._utterances.pop(stream, None)
        if utterance is not None and not utterance.finished:
            self._core.abort(utterance.key)
            self._forget(utterance)
        self._made.pop(stream, None)
        self._live.pop(stream, None)
        self._fruitless = 0

    def runnable(self, held: Collection[int]) -> bool:
        """Return whether a step would do anything while the streams ``held`` are paused."""
        if self._core.under_way or any(stream not in held for stream in self._made):
            return True
        stuck = self._fruitless >= _FRUITLESS_STEPS and held == self._held
        return not stuck and self._has_work(held)

    def step(self, held: Collection[int]) -> list[TalkerOutput]:
        """Run one step: prefill continues, and every other stream that is not in ``held`` makes one frame."""
        if held != self._held:
            self._held, self._fruitless = held, 0
        if self._core.under_way or self._has_work(held):
            drawn, started = self._core.step()
            for each in drawn:
                self._take(each)
            self._fruitless = 0 if drawn or started else self._fruitless + 1
        return self._hand_out()

    def close(self) -> None:
        """Shut vLLM down and free the device memory."""
        self._core.close()

    def _has_work(self, held: Collection[int]) -> bool:
        return len(self._standing(held)) < len(self._requests)

    def _standing(self, held: Collection[int]) -> set[str]:
        """Return the keys of requests that must not make their next frame yet. Prefill is never paused.

        Only requests that are held, have outputs not yet returned, or wait for more text can be paused.
        """
        listened = [self._utterances[stream] for stream in held if stream in self._utterances]
        behind = {each.key for each in (*listened, *self._made.values()) if self._next_frame(each) >= 0}
        return behind | {each.key for each in self._live.values() if not each.knows_text(self._next_frame(each))}

    def _next_frame(self, utterance: Utterance) -> int:
        """Return the number of the frame made next; negative during prefill, and when there is no request any more."""
        request = self._requests.get(utterance.key)
        return -1 if request is None else request.num_computed_tokens - request.num_prompt_tokens

    def _take(self, drawn: StepOutput) -> None:
        """Record a request's output as a frame or as its end (SPEC 4: the last token never becomes a frame)."""
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
        """Return at most one frame of every stream that is not paused, and its end if that comes next."""
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
    """Load the checkpoint's talker on vLLM. memory: determines the size of the KV cache.

    Raises SetupError when vLLM is missing or the device has too little memory.
    """
    require()
    prepare_environment()
    from engine.talker.vllm.core import TalkerCore

    core = TalkerCore(checkpoint, config, device, dtype, memory)
    return VllmTalker(core, config, eos=checkpoint.model.talker.ids.eos)

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
from engine.talker.gpu_step.inputs import UtteranceState
from engine.talker.vllm.installation import prepare_environment, require
from engine.talker.vllm.step_output import StepOutput

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from engine.device.memory import GpuMemory
    from engine.talker.vllm.core import TalkerCore

_MAX_IDLE_STEPS = 2
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
        self._utterances: dict[int, UtteranceState] = {}
        self._requests: dict[str, Request] = {}
        self._by_key: dict[str, UtteranceState] = {}
        self._text_open: dict[int, UtteranceState] = {}
        self._with_outputs: dict[int, UtteranceState] = {}
        self._admitted = 0
        self._paused: Collection[int] = ()
        self._idle_steps = 0
        core.set_paused_keys(lambda: self._paused_keys(self._paused))

    @property
    def free_slots(self) -> int:
        """Number of utterances that can be admitted now."""
        return self._slots - len(self._utterances)

    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot. It joins the next step."""
        self._admitted += 1
        key = f"{stream}-{self._admitted}"
        utterance = UtteranceState(stream, key, prompt, sampling, list(prompt.trailing), text_open)
        self._requests[utterance.key] = self._core.add(utterance)
        self._utterances[stream] = self._by_key[utterance.key] = utterance
        if text_open:
            self._text_open[stream] = utterance
        self._idle_steps = 0

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Append text ids after those of the prompt; ``last`` closes the text. No-op if the utterance has ended."""
        utterance = self._utterances.get(stream)
        if utterance is not None:
            utterance.append_text(ids, last=last)
            if last:
                del self._text_open[stream]
            self._idle_steps = 0

    def cancel(self, stream: int) -> None:
        """Abort an utterance. Its slot is free at once."""
        utterance = self._utterances.pop(stream, None)
        if utterance is not None and not utterance.finished:
            self._core.abort(utterance.key)
            self._forget(utterance)
        self._with_outputs.pop(stream, None)
        self._text_open.pop(stream, None)
        self._idle_steps = 0

    def runnable(self, paused: Collection[int]) -> bool:
        """Return whether a step would do anything while the streams ``paused`` are paused."""
        if self._core.in_flight or any(stream not in paused for stream in self._with_outputs):
            return True
        stuck = self._idle_steps >= _MAX_IDLE_STEPS and paused == self._paused
        return not stuck and self._has_work(paused)

    def step(self, paused: Collection[int]) -> list[TalkerOutput]:
        """Run one step: prefill continues, and every other stream that is not in ``paused`` makes one frame."""
        if paused != self._paused:
            self._paused, self._idle_steps = paused, 0
        if self._core.in_flight or self._has_work(paused):
            outputs, started = self._core.step()
            for output in outputs:
                self._record(output)
            self._idle_steps = 0 if outputs or started else self._idle_steps + 1
        return self._pop_outputs()

    def close(self) -> None:
        """Shut vLLM down and free the device memory."""
        self._core.close()

    def _has_work(self, paused: Collection[int]) -> bool:
        return len(self._paused_keys(paused)) < len(self._requests)

    def _paused_keys(self, paused: Collection[int]) -> set[str]:
        """Return the keys of requests that must not make their next frame yet. Prefill is never paused.

        These are the requests of ``paused`` streams, those with outputs not yet returned, and those that wait for text.
        """
        utterances = [self._utterances[stream] for stream in paused if stream in self._utterances]
        behind = {each.key for each in (*utterances, *self._with_outputs.values()) if self._next_frame(each) >= 0}
        return behind | {each.key for each in self._text_open.values() if not each.knows_text(self._next_frame(each))}

    def _next_frame(self, utterance: UtteranceState) -> int:
        """Return the number of the frame made next; negative during prefill, and when there is no request any more."""
        request = self._requests.get(utterance.key)
        return -1 if request is None else request.num_computed_tokens - request.num_prompt_tokens

    def _record(self, output: StepOutput) -> None:
        """Record a request's output as a frame or as its end (SPEC 4: the last token never becomes a frame)."""
        utterance = self._by_key[output.key]
        if output.codes.item(0) == self._eos:
            utterance.finish(FinishReason.STOP)
        elif output.last:
            utterance.finish(FinishReason.LENGTH)
        else:
            utterance.add_frame(output.codes)
        self._with_outputs[utterance.stream] = utterance
        if output.last:
            self._forget(utterance)

    def _forget(self, utterance: UtteranceState) -> None:
        del self._requests[utterance.key], self._by_key[utterance.key]

    def _pop_outputs(self) -> list[TalkerOutput]:
        """Return at most one frame of every stream that is not paused, and its end if that comes next."""
        popped: list[TalkerOutput] = []
        for stream, utterance in list(self._with_outputs.items()):
            if stream in self._paused:
                continue
            outputs = utterance.outputs
            if outputs[0].finish is None:
                popped.append(outputs.popleft())
            if outputs and outputs[0].finish is not None:
                popped.append(outputs.popleft())
                del self._utterances[stream]
                self._text_open.pop(stream, None)
            if not outputs:
                del self._with_outputs[stream]
        return popped


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

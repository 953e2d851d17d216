"""Stage 1 on vLLM: the same codes as the native talker's, a step later."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch

from engine.checkpoint import Checkpoint
from engine.config import TalkerConfig
from engine.prompt import Prompt
from engine.request import FinishReason
from engine.talker.base import Sampling, TalkerOutput
from engine.talker.resident.utterance import Utterance
from engine.talker.vllm.installation import prepare_environment, require

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from engine.talker.vllm.core import Drawn, TalkerCore

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
        self._admitted = 0
        self._held: Collection[int] = ()
        self._fruitless = 0
        core.let_stand(lambda request: self._stands(request, self._held))

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
        self._fruitless = 0

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Text ids that follow those of the prompt; ``last`` closes it. Void for an utterance that has ended."""
        utterance = self._utterances.get(stream)
        if utterance is not None:
            utterance.append_text(ids, last=last)
            self._fruitless = 0

    def cancel(self, stream: int) -> None:
        """Forget an utterance; its slot is free at once."""
        utterance = self._utterances.pop(stream, None)
        if utterance is not None and not utterance.finished:
            self._core.abort(utterance.key)
            self._forget(utterance)
        self._fruitless = 0

    def runnable(self, held: Collection[int]) -> bool:
        """Whether a step would do anything while the streams ``held`` stand still."""
        if self._core.under_way or self._has_outputs(held):
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

    def _has_outputs(self, held: Collection[int]) -> bool:
        return any(each.outputs and each.stream not in held for each in self._utterances.values())

    def _has_work(self, held: Collection[int]) -> bool:
        return not all(self._stands(request, held) for request in self._requests.values())

    def _stands(self, request: Request, held: Collection[int]) -> bool:
        """Whether a request must not make its next frame yet. Prompts are always read on."""
        utterance = self._by_key[request.request_id]
        frame = request.num_computed_tokens - request.num_prompt_tokens
        if frame < 0:
            return False
        return utterance.stream in held or bool(utterance.outputs) or not utterance.knows_text(frame)

    def _take(self, drawn: Drawn) -> None:
        """What a request drew is a frame, or its end (SPEC 4: the last token never becomes a frame)."""
        utterance = self._by_key[drawn.key]
        if drawn.codes[0] == self._eos:
            utterance.finish(FinishReason.STOP)
        elif drawn.last:
            utterance.finish(FinishReason.LENGTH)
        else:
            utterance.draw(drawn.codes)
        if drawn.last:
            self._forget(utterance)

    def _forget(self, utterance: Utterance) -> None:
        del self._requests[utterance.key], self._by_key[utterance.key]

    def _hand_out(self) -> list[TalkerOutput]:
        """A frame at most of every stream that is not held, and its end if that follows."""
        handed: list[TalkerOutput] = []
        for utterance in list(self._utterances.values()):
            if utterance.stream in self._held:
                continue
            outputs = utterance.outputs
            if outputs and outputs[0].finish is None:
                handed.append(outputs.popleft())
            if outputs and outputs[0].finish is not None:
                handed.append(outputs.popleft())
                del self._utterances[utterance.stream]
        return handed


def load_vllm_talker(
    checkpoint: Checkpoint, config: TalkerConfig, device: torch.device, dtype: torch.dtype
) -> VllmTalker:
    """The checkpoint's talker on vLLM. Raises SetupError where vLLM is missing, or the device too small."""
    require()
    prepare_environment()
    from engine.talker.vllm.core import TalkerCore

    return VllmTalker(TalkerCore(checkpoint, config, device, dtype), config, eos=checkpoint.model.talker.ids.eos)

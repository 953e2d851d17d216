"""The talker without vLLM: continuous batching and chunked prefill. The reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.config import TalkerConfig
from engine.models.code_predictor import CodePredictor
from engine.models.talker import TalkerModel
from engine.prompt.builder import Prompt
from engine.protocol.request import CODEBOOKS, FinishReason
from engine.talker.base import Sampling, StepOutput, no_other_work
from engine.talker.native.layers import TalkerLayers
from engine.talker.native.text_queue import TextQueue
from engine.talker.sampling import Codebook0Rules, KnownParams, Sampler, uniforms
from engine.talker.sampling_params import SamplingTensors

_PREFILL_ROWS = 64
_NO_FRAMES = np.zeros((0, CODEBOOKS), np.int16)


@dataclass(slots=True, eq=False)
class _Utterance:
    """The state of a slot.

    prompt: rows [P, hidden], None after prefill. position: number of rows in the cache. frames: number of frames made.
    embedding: [hidden], of the newest frame.
    """

    stream: int
    slot: int
    sampling: Sampling
    text: TextQueue
    prompt: Tensor | None
    position: int = 0
    frames: int = 0
    embedding: Tensor | None = None


class NativeTalker:
    """``engine.talker.base.Talker`` without vLLM. Not thread-safe: one thread admits, steps and cancels."""

    @torch.inference_mode()
    def __init__(
        self,
        model: TalkerModel,
        layers: TalkerLayers,
        predictor: CodePredictor,
        config: TalkerConfig,
        *,
        text_pad: int,
    ) -> None:
        self.context = config.context
        self._model, self._layers, self._predictor = model, layers, predictor
        self._chunk = config.prefill_chunk or _PREFILL_ROWS
        shape = model.architecture
        self._rules = Codebook0Rules(shape.vocab, shape.ids.eos, config.slots, model.device)
        self._eos = shape.ids.eos
        self._pad = model.text_rows([text_pad])[0]
        self._free = list(range(config.slots))
        self._utterances: dict[int, _Utterance] = {}
        self._batch = _BatchSampling([], model.device)

    @property
    def free_slots(self) -> int:
        """Number of utterances that can be admitted now."""
        return len(self._free)

    @torch.inference_mode()
    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot. It joins the next step."""
        trailing = self._model.text_rows(prompt.trailing)
        text = TextQueue(trailing, self._pad, closed=not text_open)
        rows = self._model.prompt_rows(prompt)
        slot = self._free.pop()
        self._rules.forget(torch.tensor([slot], device=self._model.device))
        self._utterances[stream] = _Utterance(stream, slot, sampling, text, rows)

    @torch.inference_mode()
    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Append text ids after those of the prompt; ``last`` closes the text. No-op if the utterance has ended."""
        utterance = self._utterances.get(stream)
        if utterance is not None:
            utterance.text.append(self._model.text_rows(ids), last=last)

    def cancel(self, stream: int) -> None:
        """Abort an utterance. Its slot is free at once."""
        utterance = self._utterances.pop(stream, None)
        if utterance is not None:
            self._free.append(utterance.slot)

    def runnable(self, paused: Collection[int]) -> bool:
        """Return whether a step would do anything while the streams ``paused`` are paused."""
        return any(each.prompt is not None or self._can_decode(each, paused) for each in self._utterances.values())

    def step_due_in(self, expects_request: Callable[[], bool]) -> float:
        """Return 0: steps do not overlap."""
        return 0.0

    @torch.inference_mode()
    def step(self, paused: Collection[int], other_work: Callable[[], bool] = no_other_work) -> StepOutput:
        """Run one step: prefill continues, and every other stream that is not in ``paused`` makes one frame."""
        decoding = [each for each in self._utterances.values() if self._can_decode(each, paused)]
        prefilled, states = self._prefill(budget=self._chunk)
        if decoding:
            states.append(self._decode(decoding))
        sampling = prefilled + decoding
        return self._sample(sampling, torch.cat(states)) if sampling else StepOutput([], _NO_FRAMES, [])

    def _can_decode(self, utterance: _Utterance, paused: Collection[int]) -> bool:
        return utterance.prompt is None and utterance.stream not in paused and utterance.text.has(utterance.frames - 1)

    def _prefill(self, budget: int) -> tuple[list[_Utterance], list[Tensor]]:
        """Prefill about ``budget`` prompt rows, oldest utterance first.

        The limit keeps steps short, so that a cancellation takes effect quickly. The chunk boundaries of a prompt do
        not depend on other utterances. Returns the utterances whose prefill is complete, and the last hidden state
        [1, hidden] of each.
        """
        prefilled: list[_Utterance] = []
        states: list[Tensor] = []
        for utterance in self._utterances.values():
            while utterance.prompt is not None and budget > 0:
                prompt, start = utterance.prompt, utterance.position
                rows = prompt[start : start + self._chunk]
                hidden = self._layers.prefill(rows, utterance.slot, start)
                utterance.position += len(rows)
                budget -= len(rows)
                if utterance.position == len(prompt):
                    utterance.prompt = None
                    prefilled.append(utterance)
                    states.append(hidden[-1:])
        return prefilled, states

    def _decode(self, utterances: Sequence[_Utterance]) -> Tensor:
        """Run the newest frame of each utterance, with its text row; return hidden states [rows, hidden]."""
        rows = [_newest_embedding(each) + each.text.row(each.frames - 1) for each in utterances]
        positions = [each.position for each in utterances]
        for each in utterances:
            each.position += 1
        return self._layers.decode(torch.stack(rows), [each.slot for each in utterances], positions)

    def _sample(self, utterances: list[_Utterance], states: Tensor) -> StepOutput:
        """Sample a frame from the hidden state of each utterance [rows, hidden], or end the utterance."""
        batch = self._batch_of(utterances)
        frames = torch.tensor([each.frames for each in utterances], device=states.device)
        uniform = uniforms(batch.seeds, frames, CODEBOOKS)
        logits = self._rules.apply(self._model.logits(states), batch.slots, batch.penalty, frames)
        first = batch.codebook0(logits, uniform[:, 0])
        self._rules.remember(batch.slots, first)
        reasons = [self._finish_reason(each, code) for each, code in zip(utterances, first.tolist(), strict=True)]
        unfinished = [row for row, reason in enumerate(reasons) if reason is None]
        finished = self._finish(utterances, reasons)
        if not unfinished:
            return StepOutput([], _NO_FRAMES, finished)
        if len(unfinished) < len(utterances):
            rows = torch.tensor(unfinished, device=states.device)
            states, first, uniform = states[rows], first[rows], uniform[rows]
            utterances = [utterances[row] for row in unfinished]
            batch = self._batch_of(utterances)
        codes = self._predictor(states, first, lambda codebook, logits: batch.residual(logits, uniform[:, codebook]))
        return StepOutput([each.stream for each in utterances], self._record(utterances, codes), finished)

    def _finish_reason(self, utterance: _Utterance, first: int) -> FinishReason | None:
        """Return why the utterance ends with this codebook-0 token, which is then not a frame (SPEC 4), or None."""
        if first == self._eos:
            return FinishReason.STOP
        full = utterance.position >= self.context
        if full or utterance.frames + 1 >= utterance.sampling.max_new_tokens:
            return FinishReason.LENGTH
        return None

    def _finish(
        self, utterances: Sequence[_Utterance], reasons: Sequence[FinishReason | None]
    ) -> list[tuple[int, FinishReason]]:
        finished = [
            (each.stream, reason) for each, reason in zip(utterances, reasons, strict=True) if reason is not None
        ]
        for stream, _ in finished:
            self.cancel(stream)
        return finished

    def _record(self, utterances: Sequence[_Utterance], codes: Tensor) -> NDArray[np.int16]:
        """Record a new frame of each utterance, codes [n, 16]; return them on the host."""
        embeddings = self._model.frame_rows(codes)
        for utterance, embedding in zip(utterances, embeddings.unbind(0), strict=True):
            utterance.embedding = embedding
            utterance.frames += 1
        return codes.cpu().numpy().astype(np.int16)

    def _batch_of(self, utterances: Sequence[_Utterance]) -> _BatchSampling:
        """Return the samplers of the batch, rebuilt only when the batch changes."""
        if utterances != self._batch.utterances:
            self._batch = _BatchSampling(utterances, self._model.device)
        return self._batch


class _BatchSampling:
    """The samplers of a batch: one row per utterance.

    slots, seeds: int64 [rows]. penalty: the repetition penalty, float32 [rows, 1].
    """

    def __init__(self, utterances: Sequence[_Utterance], device: torch.device) -> None:
        self.utterances = list(utterances)
        if not utterances:
            return
        self.slots = torch.tensor([each.slot for each in utterances], device=device)
        self.seeds = torch.tensor([each.sampling.seed for each in utterances], device=device)
        codebook0 = [each.sampling.codebook0 for each in utterances]
        residual = [each.sampling.residual for each in utterances]
        params = SamplingTensors.of(codebook0, device)
        self.penalty = params.column("repetition_penalty")[:, None]
        self.codebook0 = Sampler(params, KnownParams.of(codebook0))
        self.residual = Sampler(SamplingTensors.of(residual, device), KnownParams.of(residual))


def _newest_embedding(utterance: _Utterance) -> Tensor:
    """Return the embedding [hidden] of an utterance's newest frame, which is set once prefill is complete."""
    assert utterance.embedding is not None
    return utterance.embedding

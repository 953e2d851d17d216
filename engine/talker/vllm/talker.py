"""Stage 1 on vLLM: produces the same codes as the native talker, one step later."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from engine.checkpoint.folder import Checkpoint
from engine.config import TalkerConfig
from engine.device.first_frame import FirstFrame, FirstFrameSlot
from engine.prompt.builder import Prompt
from engine.protocol.request import CODEBOOKS, FinishReason
from engine.talker.base import Sampling, StepOutput, no_other_work
from engine.talker.gpu_step.inputs import UtteranceState
from engine.talker.vllm.installation import prepare_environment, require
from engine.talker.vllm.prefix_keys import prefix_keys
from engine.talker.vllm.scheduler import Batch, Scheduler
from engine.talker.vllm.step_clock import StepClock

if TYPE_CHECKING:
    from engine.device.memory import GpuMemory

_NOTHING = StepOutput([], np.zeros((0, CODEBOOKS), np.int16), [])
_YIELD_S = 0.0015
"""Seconds before the next launch after first codes. Code2Wav needs the interpreter to start the first chunks, and a
launch would hold it for half of this time. The GPU runs a step meanwhile, which takes longer."""
_LONGEST_WAIT_S = 0.0025
"""Seconds for which a step may wait for a request. On a GPU host it is sent some 0.8 ms after it was announced, and
admitted 0.9 ms after that."""
_CHECK_S = 0.0005
"""Seconds after which such a step asks again whether a request is expected."""
_FEW = 8
"""Only a step of at most this many utterances waits for a request: with more, requests arrive all the time."""


class Codes(Protocol):
    """The codes of a step in flight."""

    @property
    def done(self) -> bool:
        """Whether the step has ended, so that ``collect`` returns at once."""

    def first_frame(self, stream: int, row: int) -> FirstFrame | None:
        """Return a row of the codes on the device as the first frame of a stream; None if the step has ended."""

    def collect(self) -> NDArray[np.int16]:
        """Wait for the step; return codes [n, 16], one row for each utterance of the batch that samples."""


class Core(Protocol):
    """Runs batches: ``engine.talker.vllm.core.TalkerCore``."""

    scheduler: Scheduler

    def join(self, slot: int, utterance: UtteranceState) -> None:
        """Assign a slot to an utterance."""

    def leave(self, slot: int) -> None:
        """Free a slot."""

    def launch(self, batch: Batch) -> Codes:
        """Start a step, without waiting for it."""

    def close(self) -> None:
        """Free the device memory."""


class VllmTalker:
    """``engine.talker.base.Talker`` on vLLM. Not thread-safe: one thread admits, steps and cancels.

    While a step runs, the output of the previous one is returned. So a stream that is paused may still have one frame
    in flight.

    first_frame_slot: where the first frame of an utterance is handed over when its step is launched; None if nothing
    reads it.
    """

    first_frame_slot: FirstFrameSlot | None = None

    def __init__(self, core: Core, config: TalkerConfig, *, eos: int) -> None:
        self.context = config.context
        self._core, self._scheduler, self._eos = core, core.scheduler, eos
        self._block_size = core.scheduler.block_size if config.vllm.prefix_caching else None
        self._text_open: dict[int, UtteranceState] = {}
        self._in_flight: deque[tuple[Batch, Codes]] = deque()
        self._clock = StepClock()
        self._yields_until = 0.0
        self._waits_until: float | None = None

    @property
    def free_slots(self) -> int:
        """Number of utterances that can be admitted now."""
        return self._scheduler.free_slots

    def admit(self, stream: int, prompt: Prompt, sampling: Sampling, *, text_open: bool = False) -> None:
        """Start an utterance in a free slot. It joins the next step."""
        keys = [] if self._block_size is None else prefix_keys(prompt, self._block_size)
        rows = len(prompt.text)
        slot = self._scheduler.admit(stream, rows, min(sampling.max_new_tokens, self.context + 1 - rows), keys)
        utterance = UtteranceState(prompt, sampling, list(prompt.trailing), text_open)
        self._core.join(slot, utterance)
        if text_open:
            self._text_open[stream] = utterance
            self._scheduler.set_text(slot, len(utterance.text))

    def append_text(self, stream: int, ids: list[int], *, last: bool) -> None:
        """Append text ids after those of the prompt; ``last`` closes the text. No-op if the utterance has ended."""
        utterance, slot = self._text_open.get(stream), self._scheduler.slot(stream)
        if utterance is not None and slot is not None:
            utterance.append_text(ids, last=last)
            self._scheduler.set_text(slot, None if last else len(utterance.text))
            if last:
                del self._text_open[stream]

    def cancel(self, stream: int) -> None:
        """Abort an utterance. Its slot is free at once."""
        slot = self._scheduler.slot(stream)
        if slot is not None:
            self._scheduler.release(stream)
            self._core.leave(slot)
            self._text_open.pop(stream, None)

    def runnable(self, paused: Collection[int]) -> bool:
        """Return whether a step would do anything while the streams ``paused`` are paused."""
        return bool(self._in_flight) or self._scheduler.runnable(paused)

    def step_due_in(self, expects_request: Callable[[], bool]) -> float:
        """Return the seconds until the next step should be launched, shortly before the step in flight ends.

        After the first codes of an utterance it is not launched at once. A step of few utterances waits for a request
        that will soon be admitted: otherwise its prompt would wait for the whole step.
        """
        if not self._in_flight:
            return 0.0
        now = time.monotonic()
        due_in = max(self._clock.due_in(now), self._yields_until - now, 0.0)
        if due_in > 0 or not self._may_wait() or not expects_request():
            return due_in
        self._waits_until = self._waits_until or now + _LONGEST_WAIT_S
        return min(_CHECK_S, self._waits_until - now)

    def _may_wait(self) -> bool:
        """Return whether the next step may wait for a request: it could be admitted, and no first frame would wait."""
        in_flight, _ = self._in_flight[-1]
        first_codes = (in_flight.prefill & in_flight.samples).any()
        return self._scheduler.utterances <= _FEW and self.free_slots > 0 and not first_codes

    def step(self, paused: Collection[int], other_work: Callable[[], bool] = no_other_work) -> StepOutput:
        """Start a step: prefill continues, and every other stream that is not in ``paused`` makes one frame.

        Returns the output of the step before it, and calls ``other_work`` while that one runs.
        """
        called = time.monotonic()
        waited, self._waits_until = self._waits_until is not None, None
        try:
            batch = self._scheduler.schedule(paused)
            if batch is not None:
                codes = self._core.launch(batch)
                self._in_flight.append((batch, codes))
                self._hand_over_first_frame(batch, codes)
            launched = time.monotonic()
            if not self._in_flight or (batch is not None and len(self._in_flight) == 1):
                self._clock.started(launched)
                return _NOTHING
            earlier, pending = self._in_flight.popleft()
            late = pending.done
            while not pending.done and other_work():
                pass
            collected = pending.collect()
            if batch is not None:
                self._clock.ended(called, launched, time.monotonic(), late=late, waited=waited)
            return self._output(earlier, collected)
        except Exception:
            self._scheduler.forget_prefixes()
            raise

    def close(self) -> None:
        """Shut vLLM down and free the device memory."""
        self._core.close()

    def _hand_over_first_frame(self, batch: Batch, codes: Codes) -> None:
        """Hand over the first frame of a new utterance, if the step begins exactly one."""
        if self.first_frame_slot is None:
            return
        first = np.flatnonzero(batch.prefill[batch.samples])
        if len(first) == 1:
            [stream] = self._scheduler.streams(batch.slots[batch.samples][first])
            self.first_frame_slot.frame = codes.first_frame(stream, int(first[0]))

    def _output(self, batch: Batch, codes: NDArray[np.int16]) -> StepOutput:
        """Return the frames and the ends of a step (SPEC 4: the last code of codebook 0 never becomes a frame)."""
        slots = batch.slots[batch.samples]
        live = self._scheduler.live(slots, batch.generations[batch.samples])
        stopped = codes[:, 0] == self._eos
        ended = stopped | batch.last[batch.samples]
        frames = np.flatnonzero(live & ~ended)
        if batch.prefill[batch.samples].any():
            self._yields_until = time.monotonic() + _YIELD_S
        finished: list[tuple[int, FinishReason]] = []
        for row in np.flatnonzero(live & ended).tolist():
            [stream] = self._scheduler.streams(slots[row : row + 1])
            finished.append((stream, FinishReason.STOP if stopped[row] else FinishReason.LENGTH))
            self.cancel(stream)
        return StepOutput(self._scheduler.streams(slots[frames]), codes[frames], finished)


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

"""The main loop of stage 1: receives requests, runs talker steps, and sends codec frames."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

import numpy as np

from engine.errors import EngineError, EngineFailed
from engine.protocol.messages import StreamHeader
from engine.protocol.request import Completion, FinishReason
from engine.talker.base import Talker, TalkerOutput
from engine.talker.requests import Abort, Intent, PreparedUtterance, Probe, Rejection, RequestReader, TextDelta
from engine.transfer import Endpoint, Kind, Wakeup

_CODES = np.dtype("<i2")
_MAX_FAILED_STEPS = 3
"""After this many consecutive failed steps the device is assumed to be broken, and the process ends."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """An utterance that was announced to Code2Wav and has not ended."""

    input_tokens: int
    frames: int = 0


class TalkerStage:
    """Runs the talker until the client or Code2Wav disconnects.

    requests: reads the request link. frames: the link for codec frames. Both links must be attached to ``wakeup``.
    """

    def __init__(self, talker: Talker, requests: RequestReader, *, frames: Endpoint, wakeup: Wakeup) -> None:
        self._talker, self._requests = talker, requests
        self._slots = talker.free_slots
        self._frames, self._wakeup = frames, wakeup
        self._waiting: deque[PreparedUtterance] = deque()
        self._early_text: dict[int, list[TextDelta]] = {}
        self._running: dict[int, _Running] = {}
        self._failed_steps = 0
        self._steps = 0
        self._step_rows = 0

    def run(self) -> None:
        """Run until the client or Code2Wav disconnects.

        Every stream announced to Code2Wav is ended or failed exactly once.
        """
        while self._alive():
            for intent in self._requests.take():
                self._handle(intent)
            self._take_cancellations()
            self._admit()
            paused = self._paused()
            if self._talker.runnable(paused):
                self._step(paused)
            else:
                self._wakeup.wait_for(self._has_input)

    def _alive(self) -> bool:
        return self._requests.alive and self._frames.alive

    def _handle(self, intent: Intent) -> None:
        match intent:
            case PreparedUtterance():
                self._frames.open(intent.stream, StreamHeader(intent.realtime, intent.context).to_bytes())
                self._running[intent.stream] = _Running(intent.prompt.input_tokens)
                self._waiting.append(intent)
            case TextDelta():
                self._append_text(intent)
            case Rejection():
                self._frames.open(intent.stream, StreamHeader(realtime=False).to_bytes())
                self._frames.fail(intent.stream, intent.error.to_bytes())
            case Abort():
                self._cancel(intent.stream)
            case Probe():
                header = StreamHeader(realtime=False, probe=self._stats())
                self._frames.open(intent.stream, header.to_bytes())
                self._frames.end(intent.stream)

    def _append_text(self, delta: TextDelta) -> None:
        """Pass more text to the talker, or keep it while the utterance waits for a slot."""
        running = self._running.get(delta.stream)
        if running is None:
            return
        running.input_tokens += len(delta.ids) - delta.last  # the end-of-text id is not a token of the caller's
        if any(each.stream == delta.stream for each in self._waiting):
            self._early_text.setdefault(delta.stream, []).append(delta)
        else:
            self._talker.append_text(delta.stream, delta.ids, last=delta.last)

    def _stats(self) -> dict[str, int]:
        used, size = self._frames.fill
        return {
            "talker_slots": self._slots - self._talker.free_slots,
            "talker_waiting": len(self._waiting),
            "talker_steps": self._steps,
            "talker_step_rows": self._step_rows,
            "frames_ring_used": used,
            "frames_ring_size": size,
            **self._requests.stats(),
        }

    def _take_cancellations(self) -> None:
        for record in self._frames.receive():
            if record.kind is Kind.CANCEL:
                self._cancel(record.stream)

    def _cancel(self, stream: int) -> None:
        if stream in self._running:
            self._talker.cancel(stream)
            self._waiting = deque(each for each in self._waiting if each.stream != stream)
            self._early_text.pop(stream, None)
            self._end(stream, FinishReason.CANCELLED)

    def _admit(self) -> None:
        while self._waiting and self._talker.free_slots:
            utterance = self._waiting.popleft()
            try:
                self._talker.admit(utterance.stream, utterance.prompt, utterance.sampling, text_open=utterance.live)
                for delta in self._early_text.pop(utterance.stream, ()):
                    self._talker.append_text(delta.stream, delta.ids, last=delta.last)
            except Exception as error:
                _log.exception("admitting stream %d to the talker failed", utterance.stream)
                self._fail([utterance.stream], EngineFailed(f"the talker failed to admit the utterance: {error}"))

    def _paused(self) -> frozenset[int]:
        """Return the streams to pause (back-pressure): the client is behind, so Code2Wav has returned no credit."""
        return self._frames.without_credit()

    def _step(self, paused: frozenset[int]) -> None:
        try:
            outputs = self._talker.step(paused)
        except Exception as error:
            self._failed_steps += 1
            if self._failed_steps >= _MAX_FAILED_STEPS:
                raise
            waiting = {each.stream for each in self._waiting}
            stepped = [stream for stream in self._running if stream not in waiting]
            _log.exception("the talker's step failed; failing %d streams", len(stepped))
            self._fail(stepped, EngineFailed(f"the talker's step failed: {error}"))
            return
        self._failed_steps = 0
        self._steps += 1
        self._step_rows += len({output.stream for output in outputs})
        self._emit(outputs)

    def _emit(self, outputs: list[TalkerOutput]) -> None:
        """Send all frames in one batch, then the end of each finished stream."""
        frames = []
        for stream, codes, _ in outputs:
            if codes is not None:
                self._running[stream].frames += 1
                frames.append((stream, codes.astype(_CODES, copy=False).tobytes(), 1))
        if frames:
            self._frames.send_all(frames)
        for stream, _, finish in outputs:
            if finish is not None:
                self._end(stream, finish)

    def _end(self, stream: int, reason: FinishReason) -> None:
        running = self._running.pop(stream)
        completion = Completion(reason, running.input_tokens, running.frames)
        self._frames.end(stream, completion.to_bytes())

    def _fail(self, streams: list[int], error: EngineError) -> None:
        for stream in streams:
            self._talker.cancel(stream)
            self._early_text.pop(stream, None)
            del self._running[stream]
            self._frames.fail(stream, error.to_bytes())

    def _has_input(self) -> bool:
        return not self._alive() or self._requests.pending() or self._frames.pending()

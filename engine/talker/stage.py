"""The main loop of stage 1: receives requests, runs talker steps, and sends codec frames."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from typing import Protocol

from engine.errors import EngineError, EngineFailed
from engine.protocol.messages import StreamHeader
from engine.protocol.request import Completion, FinishReason
from engine.talker.base import StepOutput, Talker
from engine.talker.requests import Abort, Intent, PreparedUtterance, Probe, Rejection, TextDelta
from engine.transfer import Endpoint, Kind, Wakeup

_CODES = "<i2"
_MAX_FAILED_STEPS = 3
"""After this many consecutive failed steps the device is assumed to be broken, and the process ends."""
_PARSING_S = 0.008
"""Seconds after which no more requests are parsed before a step: those that arrive together share one, and a flood of
requests does not stop the utterances that run."""
_PARSING_SHARE = 0.25
"""The same as a share of the step before, if that is more: a step takes up to 0.3 s on a CPU."""
_log = logging.getLogger(__name__)


class Requests(Protocol):
    """Reads the request link: ``engine.talker.requests.RequestReader``."""

    @property
    def alive(self) -> bool:
        """Whether the client is still connected."""

    def stats(self) -> dict[str, int]:
        """Return counters for the statistics."""

    def pending(self) -> bool:
        """Return whether ``take`` has a record to parse."""

    def announced(self) -> bool:
        """Return whether a request will soon arrive. False while ``pending``."""

    def take(self) -> Intent | None:
        """Parse the next record that has arrived. Return None if it asks nothing of the talker, or if there is none."""


class TalkerStage:
    """Runs the talker until the client or Code2Wav disconnects.

    frames: the link for codec frames. ``wakeup`` must be notified of whatever arrives on it and from ``requests``.
    """

    def __init__(self, talker: Talker, requests: Requests, *, frames: Endpoint, wakeup: Wakeup) -> None:
        self._talker, self._requests = talker, requests
        self._slots = talker.free_slots
        self._frames, self._wakeup = frames, wakeup
        self._intents: deque[Intent] = deque()
        """What is parsed and not handled yet."""
        self._waiting: deque[PreparedUtterance] = deque()
        self._early_text: dict[int, list[TextDelta]] = {}
        self._input_tokens: dict[int, int] = {}
        """Tokens of the texts of each stream that has not ended."""
        self._unannounced: dict[int, StreamHeader] = {}
        """Headers of the streams that Code2Wav does not know yet."""
        self._frames_sent: Counter[int] = Counter()
        self._parsing_error: Exception | None = None
        self._failed_steps = 0
        self._step_seconds = 0.0
        self._steps = 0
        self._step_rows = 0

    def run(self) -> None:
        """Run until the client or Code2Wav disconnects.

        Every stream announced to Code2Wav is ended or failed exactly once.
        """
        while self._alive():
            self._take_requests()
            self._take_cancellations()
            self._admit()
            if (seconds := self._talker.step_due_in(self._requests.announced)) > 0:
                self._wait(seconds)
            elif self._talker.runnable(paused := self._paused()):
                self._step(paused)
            else:
                self._wait()

    def _alive(self) -> bool:
        return self._requests.alive and self._frames.alive

    def _take_requests(self) -> None:
        """Parse the requests that have arrived, for a limited time, and handle what is parsed."""
        until = time.monotonic() + max(_PARSING_S, _PARSING_SHARE * self._step_seconds)
        while self._parse_request() and time.monotonic() < until:
            pass
        if self._parsing_error is not None:
            raise self._parsing_error
        while self._intents:
            self._handle(self._intents.popleft())

    def _parse_request(self) -> bool:
        """Parse the next record that has arrived, and return whether there was one.

        An error is raised by ``_take_requests``: here it could look like one of the step that runs.
        """
        if self._parsing_error is not None or not self._requests.pending():
            return False
        try:
            intent = self._requests.take()
        except Exception as error:
            self._parsing_error = error
            return False
        if intent is not None:
            self._intents.append(intent)
        return True

    def _handle(self, intent: Intent) -> None:
        match intent:
            case PreparedUtterance():
                self._unannounced[intent.stream] = StreamHeader(intent.realtime, intent.context)
                self._input_tokens[intent.stream] = intent.prompt.input_tokens
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

    def _announce(self) -> None:
        """Announce new streams to Code2Wav. It then needs the interpreter, so a step is launched before that."""
        for stream, header in self._unannounced.items():
            self._frames.open(stream, header.to_bytes())
        self._unannounced.clear()

    def _wait(self, seconds: float | None = None) -> None:
        self._announce()
        self._wakeup.wait_for(self._has_input, seconds)

    def _append_text(self, delta: TextDelta) -> None:
        """Pass more text to the talker, or keep it while the utterance waits for a slot."""
        if delta.stream not in self._input_tokens:
            return
        self._input_tokens[delta.stream] += len(delta.ids) - delta.last  # without the end-of-text id
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
        if stream in self._input_tokens:
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
        began = time.monotonic()
        try:
            output = self._talker.step(paused, self._parse_request)
        except Exception as error:
            self._announce()
            self._failed_steps += 1
            if self._failed_steps >= _MAX_FAILED_STEPS:
                _log.exception("the talker ends after %d failed steps in a row", self._failed_steps)
                raise
            waiting = {each.stream for each in self._waiting}
            stepped = [stream for stream in self._input_tokens if stream not in waiting]
            _log.exception("the talker's step failed; failing %d streams", len(stepped))
            self._fail(stepped, EngineFailed(f"the talker's step failed: {error}"))
            return
        self._step_seconds = time.monotonic() - began
        if output.streams or output.finished:
            self._failed_steps = 0
        self._steps += 1
        self._step_rows += len(output.streams)
        self._emit(output)

    def _emit(self, output: StepOutput) -> None:
        """Send all frames in one record, then the end of each finished stream."""
        self._announce()
        if output.streams:
            self._frames_sent.update(output.streams)
            self._frames.send_rows(output.streams, output.codes.astype(_CODES, copy=False).tobytes())
        for stream, finish in output.finished:
            self._end(stream, finish)

    def _end(self, stream: int, reason: FinishReason) -> None:
        self._announce()
        completion = Completion(reason, self._input_tokens.pop(stream), self._frames_sent.pop(stream, 0))
        self._frames.end(stream, completion.to_bytes())

    def _fail(self, streams: list[int], error: EngineError) -> None:
        self._announce()
        for stream in streams:
            self._talker.cancel(stream)
            self._early_text.pop(stream, None)
            del self._input_tokens[stream]
            self._frames_sent.pop(stream, None)
            self._frames.fail(stream, error.to_bytes())

    def _has_input(self) -> bool:
        return not self._alive() or self._requests.pending() or self._frames.pending()

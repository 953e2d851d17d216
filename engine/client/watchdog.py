"""Watches an engine process: its pipeline must answer, and its models must produce audio. Imports no torch."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable
from typing import Literal

import numpy as np

from engine.client.stream import ResponseQueue, SpeechStream
from engine.config import EngineConfig
from engine.errors import EngineError, EngineFailed, EngineUnavailable
from engine.protocol.messages import RequestKind, pack_request
from engine.protocol.request import SAMPLES_PER_FRAME, EngineInfo, SamplingParams, SpeechRequest, Voice

Reason = Literal["crashed", "stalled", "failed"]
"""Why an engine process was replaced: it exited, did not answer in time, or produced no audio."""
Stats = dict[str, int]

_PROBES_PER_STALL = 4
"""The watchdog sends a probe this many times in ``stall_seconds``."""
_STALLED_FRACTION = 0.5
"""The engine counts as stalled once a probe is unanswered for this fraction of ``stall_seconds``.

Long steps on slow CPUs take less time.
"""
_IDLE_SECONDS = 10.0
"""A readiness check starts a model check if the engine has produced no audio for this long."""
_LONG_IDLE_SECONDS = 30.0
"""A new request no longer cancels a running model check once the engine has produced no audio for this long."""
_MAX_FAILED_CHECKS = 3
"""Number of consecutive failed model checks after which the engine is killed."""
_RETRY_SECONDS = 0.5
"""Pause between a failed model check and the next one."""
_CHECK_FRAMES = 2
"""Frames of the utterance of a model check."""
_CHUNKS, _SLOTS_WANTED = "code2wav_chunks", ("talker_slots", "talker_waiting")
"""Statistics of the engine: chunks of audio that were sent; utterances that have a slot, and that wait for one."""
_log = logging.getLogger(__name__)


def model_check_request(info: EngineInfo) -> SpeechRequest:
    """Return a request for a greedy utterance of two frames that the checkpoint ``info`` accepts."""
    sampling = SamplingParams(greedy=True, max_new_tokens=_CHECK_FRAMES + 1, seed=0)
    if info.speakers:
        return SpeechRequest("Hello.", speaker=info.speakers[0], sampling=sampling)
    if info.embedding_width is not None:
        voice = Voice(np.full(info.embedding_width, info.embedding_width**-0.5, np.float32))
        return SpeechRequest("Hello.", voice=voice, sampling=sampling)
    return SpeechRequest("Hello.", instructions="A calm voice.", sampling=sampling)


async def consume_model_check(stream: SpeechStream) -> None:
    """Consume the audio of a check utterance. Raises EngineError if it fails or has the wrong size.

    There is no check for NaN samples, because Code2Wav already fails a stream that has them.
    """
    frames = samples = 0
    try:
        async for chunk in stream:
            frames += len(chunk.codes)
            samples += len(chunk.samples)
    except ValueError as error:
        raise EngineFailed(f"the model check received a malformed chunk: {error}") from None
    expected = stream.completion.output_tokens
    if not frames or frames != expected or samples != frames * SAMPLES_PER_FRAME:
        raise EngineFailed(
            f"the model check must produce {expected} frames of {SAMPLES_PER_FRAME} samples, "
            f"got {samples} samples in {frames} frames"
        )


class Watchdog:
    """Watches one engine process from its READY record until it is lost. Runs in the client's event loop.

    It opens two kinds of streams, which do not count as requests. A probe is an empty stream through both stages, and
    returns their statistics. Only the answer to a probe counts as a sign of life, because Code2Wav may still have
    audio to send when the talker hangs. A model check is a short utterance.

    open_stream: opens a stream with the given payload; raises EngineUnavailable.
    in_flight: returns the number of open requests of this process. Those of others are known from the statistics.
    kill: kills the process, given the reason and a message for the log.
    on_change: is called when ``stalled``, ``suspect`` or the result of ``raise_if_unhealthy`` may have changed.
    """

    def __init__(
        self,
        config: EngineConfig,
        info: EngineInfo,
        open_stream: Callable[[bytes], ResponseQueue],
        in_flight: Callable[[], int],
        kill: Callable[[Reason, str], None],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._stall_seconds = config.stall_seconds
        self._slots = config.talker.slots
        self._utterance = pack_request(RequestKind.SPEECH, model_check_request(info).to_bytes())
        self._open, self._in_flight, self._kill = open_stream, in_flight, kill
        self._on_change = on_change
        self._stall_reported = False
        self._last_answer_at = self._last_audio_at = time.monotonic()
        self._unanswered_since: float | None = None
        self._probe: asyncio.Task[Stats | None] | None = None
        self._model_check_task: asyncio.Task[None] | None = None
        self._must_recheck = self._last_check_failed = self._closed = False
        self._chunks: float = math.inf
        """Chunks of audio that were sent, at the last probe. Infinite before the first one, and after a failure."""
        self.stats: Stats | None = None
        """The statistics that the last answered probe returned."""
        self._watching = asyncio.create_task(self._watch())

    @property
    def stalled(self) -> bool:
        """Whether a probe has been unanswered for more than half of ``stall_seconds``."""
        since = self._unanswered_since
        return since is not None and time.monotonic() - since > self._stall_seconds * _STALLED_FRACTION

    @property
    def suspect(self) -> bool:
        """Whether the models failed on a request or a check, and have produced no audio since."""
        return self._must_recheck

    def raise_if_unhealthy(self) -> None:
        """Raise EngineUnavailable if the pipeline does not answer or the last model check failed."""
        if self.stalled:
            unanswered = time.monotonic() - self._last_answer_at
            raise EngineUnavailable(
                f"the engine has not answered for {unanswered:.1f} s and is restarted after {self._stall_seconds:g} s; "
                "retry later",
                code="engine_stalled",
            )
        if self._last_check_failed:
            raise EngineUnavailable(
                "the last model check failed and the engine may be restarted; retry later", code="engine_failing"
            )

    async def fresh_stats(self) -> Stats:
        """Return statistics at least as recent as the call. Concurrent callers share a probe.

        Waits without a timeout until the pipeline answers. Raises EngineUnavailable if the probe fails.
        """
        if self._probe is not None:  # sent before this call
            await asyncio.wait({self._probe})
        if self._closed:
            raise EngineUnavailable("the engine did not answer a request for its statistics")
        probe = self._send_probe()
        await asyncio.wait({probe})
        stats = None if probe.cancelled() else probe.result()
        if stats is None:
            raise EngineUnavailable("the engine did not answer a request for its statistics")
        return stats

    def check_if_idle(self) -> None:
        """Start a model check, unless audio was received recently or all slots may be in use."""
        if self._seconds_since_audio() > _IDLE_SECONDS and self._has_free_slot():
            self._start_checks()

    def request_submitted(self) -> None:
        """Cancel a routine model check.

        A request exercises the models and needs the slot, so it replaces the check. After 30 s without audio the check
        continues, because a hung request would produce no evidence.
        """
        if (
            self._model_check_task is not None
            and not self._must_recheck
            and self._seconds_since_audio() < _LONG_IDLE_SECONDS
        ):
            self._model_check_task.cancel()

    def audio_received(self) -> None:
        """Record that the models work, because audio of a request has arrived, and cancel a running model check."""
        self._mark_healthy()
        if self._model_check_task is not None:
            self._model_check_task.cancel()

    def request_failed(self) -> None:
        """Start a model check after a model failed on a request: the request or the engine may be the cause."""
        self._must_recheck, self._chunks = True, math.inf
        self._on_change()
        self._start_checks()

    async def check_models(self, timeout: float) -> None:
        """Synthesize a short utterance. Raises EngineError if it fails or takes more than ``timeout`` seconds."""
        stream = SpeechStream(self._open(self._utterance))
        try:
            async with asyncio.timeout(timeout):
                await consume_model_check(stream)
        except TimeoutError:
            raise EngineFailed(f"the model check was not complete within {timeout:g} s") from None
        finally:
            stream.cancel()
        self._mark_healthy()

    def close(self) -> None:
        """Stop watching."""
        self._closed = True
        for task in (self._watching, self._probe, self._model_check_task):
            if task is not None:
                task.cancel()

    async def _watch(self) -> None:
        """Probe the pipeline, and kill the process once ``stall_seconds`` have passed since the last answer."""
        self._send_probe()
        while True:
            before = time.monotonic()
            remaining = self._last_answer_at + self._stall_seconds - before
            pause = min(self._stall_seconds / _PROBES_PER_STALL, max(0.0, remaining))
            await asyncio.sleep(pause)
            self._exclude_delay(time.monotonic() - before - pause)
            if self.stalled and not self._stall_reported:
                self._stall_reported = True
                self._on_change()
            unanswered = time.monotonic() - self._last_answer_at
            if unanswered >= self._stall_seconds:
                self._kill("stalled", f"its pipeline has not answered for {unanswered:.1f} s")
                return
            self._send_probe()
            if self._must_recheck:
                self._start_checks()

    def _exclude_delay(self, seconds: float) -> None:
        """Exclude ``seconds``, in which this process was suspended or busy, from the time without an answer."""
        self._last_answer_at += seconds
        if self._unanswered_since is not None:
            self._unanswered_since += seconds

    def _send_probe(self) -> asyncio.Task[Stats | None]:
        """Return the probe in flight, or send a new one."""
        if self._probe is None or self._probe.done():
            if self._unanswered_since is None:
                self._unanswered_since = time.monotonic()
            self._probe = asyncio.create_task(self._run_probe())
        return self._probe

    async def _run_probe(self) -> Stats | None:
        try:
            stats: Stats = json.loads(await self._open(pack_request(RequestKind.PROBE)).wait_for_end())
        except EngineError:
            return None
        self._last_answer_at = time.monotonic()
        self._unanswered_since = None
        self._note_audio(stats.get(_CHUNKS, 0))
        self.stats = stats
        if self._stall_reported:
            self._stall_reported = False
            self._on_change()
        return stats

    def _note_audio(self, chunks: int) -> None:
        """Record that the models work if audio was sent since the last probe, to whatever process.

        After a failure, only audio that is sent after the next probe counts.
        """
        if chunks > self._chunks:
            self.audio_received()
        self._chunks = chunks

    def _has_free_slot(self) -> bool:
        """Return whether a check finds a free slot, as far as is known."""
        used = 0 if self.stats is None else sum(self.stats.get(each, 0) for each in _SLOTS_WANTED)
        return max(used, self._in_flight()) < self._slots

    def _seconds_since_audio(self) -> float:
        """Return the seconds since the models last produced audio."""
        return time.monotonic() - self._last_audio_at

    def _mark_healthy(self) -> None:
        self._last_audio_at = time.monotonic()
        if self._must_recheck:
            self._must_recheck = self._last_check_failed = False
            self._on_change()

    def _start_checks(self) -> None:
        if self._model_check_task is None or self._model_check_task.done():
            self._model_check_task = asyncio.create_task(self._check_repeatedly())

    async def _check_repeatedly(self) -> None:
        """Check the models until a check succeeds. Kill the process after ``_MAX_FAILED_CHECKS`` failures in a row."""
        for number in range(1, _MAX_FAILED_CHECKS + 1):
            if not self._has_free_slot():
                return  # the check could wait for a slot; the open requests test the models
            try:
                await self.check_models(self._stall_seconds)
                return
            except EngineError as error:
                self._must_recheck = self._last_check_failed = True
                self._chunks = math.inf
                self._on_change()
                _log.error("model check %d of %d failed: %s", number, _MAX_FAILED_CHECKS, error)
            await asyncio.sleep(_RETRY_SECONDS)
        self._kill("failed", f"{_MAX_FAILED_CHECKS} consecutive model checks failed")


def is_model_failure(payload: bytes) -> bool:
    """Return whether a FAIL record reports a failure of the models, not a bad request or the end of the process."""
    return bool(payload) and isinstance(EngineError.from_bytes(payload), EngineFailed)

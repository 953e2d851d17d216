"""The watchdog of an engine process: does its pipeline answer, and do its models make audio? Free of torch."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Literal

from engine.config import EngineConfig
from engine.errors import EngineError, EngineFailed, EngineUnavailable
from engine.messages import Ask, ask, speak
from engine.model_check import check_request, hear_check
from engine.request import EngineInfo
from engine.speech_stream import Inbox, SpeechStream

Reason = Literal["crashed", "stalled", "failed"]
"""Why an engine process was replaced: it ended by itself, did not answer in time, or made no audio."""
Figures = dict[str, int]

_PROBES = 4
"""Probes in ``stall_seconds``."""
_STALLED_SHARE = 0.5
"""A probe unanswered for this share of ``stall_seconds`` marks a stall. Long steps on slow CPUs stay below it."""
_AUDIO_SECONDS = 10.0
"""After so long without audio a readiness check of an idle engine starts a model check."""
_LONG_SILENCE_SECONDS = 30.0
"""After so long without audio a model check is not given up for a request."""
_CHECKS = 3
"""Model checks that may fail in a row; then the engine is killed."""
_RETRY_SECONDS = 0.5
_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one engine process from its READY record until it is lost. Lives in the client's event loop.

    It sends two kinds of streams, which are no requests. A probe is an empty stream through both stages, and brings
    their figures; only its answer counts as a sign of life, because Code2Wav may still have audio to send when the
    talker hangs. A model check is a short utterance.

    open_stream: opens a stream with the given payload, raises EngineUnavailable; in_flight: counts open requests; kill:
    ends the process for a reason, with a sentence for the log.
    """

    def __init__(
        self,
        config: EngineConfig,
        info: EngineInfo,
        open_stream: Callable[[bytes], Inbox],
        in_flight: Callable[[], int],
        kill: Callable[[Reason, str], None],
    ) -> None:
        self._stall_seconds = config.stall_seconds
        self._slots = config.talker.slots
        self._utterance = speak(check_request(info))
        self._open, self._in_flight, self._kill = open_stream, in_flight, kill
        self._answered = self._audio_at = time.monotonic()
        self._unanswered_since: float | None = None
        self._probe: asyncio.Task[Figures | None] | None = None
        self._check: asyncio.Task[None] | None = None
        self._suspect = self._failing = self._closed = False
        self.figures: Figures | None = None
        """What the last answered probe brought."""
        self._watching = asyncio.create_task(self._watch())

    @property
    def stalled(self) -> bool:
        """Whether a probe has been unanswered for half of ``stall_seconds``."""
        since = self._unanswered_since
        return since is not None and time.monotonic() - since > self._stall_seconds * _STALLED_SHARE

    def raise_if_unwell(self) -> None:
        """Raises EngineUnavailable where the pipeline does not answer, or the last model check failed."""
        if self.stalled:
            silent = time.monotonic() - self._answered
            raise EngineUnavailable(
                f"the engine has not answered for {silent:.1f} s; it is restarted after {self._stall_seconds:g} s",
                code="engine_stalled",
            )
        if self._failing:
            raise EngineUnavailable("the engine makes no audio; it is about to be restarted", code="engine_failing")

    async def fresh_figures(self) -> Figures:
        """Figures at least as new as the call. Callers share a probe. Raises EngineUnavailable where it cannot answer.

        Waits for as long as the pipeline does not answer.
        """
        if self._probe is not None:  # sent before this call
            await asyncio.wait({self._probe})
        if self._closed:
            raise EngineUnavailable("the engine did not answer")
        probe = self._send_probe()
        await asyncio.wait({probe})
        figures = None if probe.cancelled() else probe.result()
        if figures is None:
            raise EngineUnavailable("the engine did not answer")
        return figures

    def check_if_idle(self) -> None:
        """Start a model check, unless audio came lately or all slots may be in use."""
        if self._silent_seconds() > _AUDIO_SECONDS and self._in_flight() < self._slots:
            self._start_checks()

    def request_submitted(self) -> None:
        """A request is about to take the models: it shows as much as a routine check, which makes room for it.

        After a long silence the check goes on: requests that hang show nothing.
        """
        if self._check is not None and not self._suspect and self._silent_seconds() < _LONG_SILENCE_SECONDS:
            self._check.cancel()

    def audio_came(self) -> None:
        """Audio of a request has come: the models work."""
        self._models_work()
        if self._check is not None:
            self._check.cancel()

    def request_failed(self) -> None:
        """A model failed on a request. A model check tells whether it was the request's own fault."""
        self._suspect = True
        self._start_checks()

    async def check_models(self, timeout: float) -> None:
        """Speak a short utterance. Raises EngineError where it brings no audio within ``timeout`` seconds."""
        stream = SpeechStream(self._open(self._utterance))
        try:
            async with asyncio.timeout(timeout):
                await hear_check(stream)
        except TimeoutError:
            raise EngineFailed(f"a check utterance was not complete within {timeout:g} s") from None
        finally:
            stream.cancel()
        self._models_work()

    def close(self) -> None:
        """Stop watching."""
        self._closed = True
        for task in (self._watching, self._probe, self._check):
            if task is not None:
                task.cancel()

    async def _watch(self) -> None:
        """Probe the pipeline, and kill the process once ``stall_seconds`` have passed since the last answer."""
        self._send_probe()
        while True:
            before = time.monotonic()
            pause = min(self._stall_seconds / _PROBES, max(0.0, self._answered + self._stall_seconds - before))
            await asyncio.sleep(pause)
            self._discount(time.monotonic() - before - pause)
            silent = time.monotonic() - self._answered
            if silent >= self._stall_seconds:
                self._kill("stalled", f"its pipeline has not answered for {silent:.1f} s")
                return
            self._send_probe()
            if self._suspect:
                self._start_checks()

    def _discount(self, late: float) -> None:
        """This process was itself stopped, or busy, for ``late`` seconds: they say nothing about the engine."""
        self._answered += late
        if self._unanswered_since is not None:
            self._unanswered_since += late

    def _send_probe(self) -> asyncio.Task[Figures | None]:
        """The probe that is on its way, or a new one."""
        if self._probe is None or self._probe.done():
            if self._unanswered_since is None:
                self._unanswered_since = time.monotonic()
            self._probe = asyncio.create_task(self._ask())
        return self._probe

    async def _ask(self) -> Figures | None:
        try:
            figures: Figures = json.loads(await self._open(ask(Ask.PROBE)).ending())
        except EngineError:
            return None
        self._answered = time.monotonic()
        self._unanswered_since = None
        self.figures = figures
        return figures

    def _silent_seconds(self) -> float:
        """Seconds since the models last made audio."""
        return time.monotonic() - self._audio_at

    def _models_work(self) -> None:
        self._audio_at = time.monotonic()
        self._suspect = self._failing = False

    def _start_checks(self) -> None:
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(self._check_repeatedly())

    async def _check_repeatedly(self) -> None:
        """Until a check succeeds; kill the process when ``_CHECKS`` have failed in a row."""
        for number in range(1, _CHECKS + 1):
            if self._in_flight() >= self._slots:
                return  # it might wait for a slot; the requests show whether the models work
            try:
                await self.check_models(self._stall_seconds)
                return
            except EngineError as error:
                self._suspect = self._failing = True
                _log.error("check %d of %d of the models failed: %s", number, _CHECKS, error)
            await asyncio.sleep(_RETRY_SECONDS)
        self._kill("failed", f"{_CHECKS} checks of its models failed in a row")

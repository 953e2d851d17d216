"""The only door into the engine. Free of torch: the engine runs in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.config import EngineConfig
from engine.errors import CheckpointError, EngineError, EngineFailed, EngineUnavailable
from engine.messages import READY, Ask, EncodeRequest, ask, decoded_voice, speak
from engine.request import SAMPLE_RATE, EngineInfo, SpeechRequest, Voice
from engine.resampling import resample
from engine.speech_stream import Inbox, SpeechStream, unreachable
from engine.transfer import Kind, Record, TransferError
from engine.watchdog import Figures, Reason, Watchdog
from engine.worker_handle import WorkerHandle

State = Literal["starting", "ready", "failed", "closed"]
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_STARTS = 3
"""How often an engine that has never been ready is started before it counts as failed."""
_FIRST_CHECK_STALLS = 3
"""The model check of a start may take so many times ``stall_seconds``; the watchdog ends a pipeline that hangs."""
_VOICE_STALLS = 6
"""Encoding a recording may take so many times ``stall_seconds``, the wait behind others included; longer ones more."""
_USUAL_VOICE_SECONDS = 30.0
"""Recordings longer than this get proportionally more time."""
_log = logging.getLogger(__name__)


class EngineClient:
    """Starts the engine process, restarts it when it ends or stalls, and speaks with it.

    Lives in one event loop, which only starting a process blocks, for some milliseconds.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._state: State = "starting"
        self._info: EngineInfo | None = None
        self._failure: EngineError = EngineUnavailable("the engine is starting")
        self._changed = asyncio.Event()
        self._numbers = itertools.count(1)
        self._inboxes: dict[int, Inbox] = {}
        self._probes: dict[int, Inbox] = {}
        self._worker: WorkerHandle | None = None
        self._watchdog: Watchdog | None = None
        self._verification: asyncio.Task[None] | None = None
        self._restart: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._load_timer: asyncio.TimerHandle | None = None
        self._restarts: dict[str, int] = {"crashed": 0, "stalled": 0, "failed": 0}
        self._voice_answered = 0.0
        self._backoff = _FIRST_BACKOFF_S
        self._starts = 0

    @property
    def state(self) -> State:
        """starting (or restarting), ready, failed for good, or closed."""
        return self._state

    @property
    def info(self) -> EngineInfo:
        """What the loaded checkpoint can do. Raises EngineUnavailable, or CheckpointError, until it is known."""
        if self._info is None or self._state != "ready":
            raise self._failure.with_traceback(None)
        return self._info

    @property
    def open_streams(self) -> int:
        """Requests whose end has not come."""
        return len(self._inboxes)

    @property
    def restarts(self) -> Mapping[str, int]:
        """How often the engine process was replaced, by reason."""
        return self._restarts

    @property
    def last_stats(self) -> Figures | None:
        """The figures that came last from the running engine process."""
        figures = None if self._watchdog is None else self._watchdog.figures
        return None if figures is None else self._with_own(figures)

    def check_health(self) -> None:
        """Raises EngineUnavailable, or CheckpointError, unless the engine can speak as far as is known. Never waits.

        Where an idle engine has made no audio lately, a model check starts in the background; the next call knows more.
        """
        self._ready_worker()
        if self._watchdog is not None:
            self._watchdog.check_if_idle()

    async def start(self) -> None:
        """Start the engine process; it loads the checkpoint meanwhile."""
        self._loop = asyncio.get_running_loop()
        self._launch()

    async def close(self) -> None:
        """End the engine process; open requests fail."""
        responsive = self._state == "ready" and not (self._watchdog is not None and self._watchdog.stalled)
        closed = EngineUnavailable("the engine is closed")
        self._become("closed", closed)
        if self._restart is not None:
            self._restart.cancel()
        self._stop_watching()
        self._fail_all(closed)
        worker, self._worker = self._worker, None
        if worker is not None:
            if not responsive:
                worker.kill()
            await asyncio.to_thread(worker.close)
        if self._ending is not None:
            await asyncio.wait({self._ending})

    async def wait_ready(self, timeout: float | None = None) -> EngineInfo:
        """Wait until the checkpoint is loaded. Raises CheckpointError if it cannot be, TimeoutError when late."""
        async with asyncio.timeout(timeout):
            while self._state == "starting":
                await self._changed.wait()
        return self.info

    def submit(self, request: SpeechRequest) -> SpeechStream:
        """Ask for an utterance. Never waits. Raises EngineUnavailable while the engine cannot take it."""
        worker = self._ready_worker()
        if self._watchdog is not None:
            self._watchdog.request_submitted()
        inbox = self._open(worker, speak(request), self._inboxes)
        return SpeechStream(inbox)

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        """The voice of a mono recording; with ``codes``, and the transcript, for in-context cloning.

        Raises RequestError where the checkpoint cannot clone, EngineUnavailable while there is no engine.
        """
        self._ready_worker()
        heard = await asyncio.to_thread(resample, samples, sample_rate, SAMPLE_RATE)
        scale = max(1.0, len(heard) / SAMPLE_RATE / _USUAL_VOICE_SECONDS)
        voice = await self._voice(ask(Ask.ENCODE, EncodeRequest(heard, codes).to_bytes()), scale)
        return Voice(voice.embedding, voice.codes, transcript)

    async def speaker_voice(self, speaker: str) -> Voice:
        """A built-in speaker, by the checkpoint's own spelling, as a voice to clone.

        Raises RequestError where there is no such speaker, EngineUnavailable while there is no engine.
        """
        return await self._voice(ask(Ask.SPEAKER, speaker.encode()))

    async def stats(self, timeout: float) -> Figures:
        """Figures of both stages, brought by a stream that has been through the whole pipeline.

        Raises TimeoutError when it does not come through in ``timeout`` seconds; at once, without waiting,
        EngineUnavailable while there is no engine, or it is known not to answer.
        """
        self._ready_worker()
        assert self._watchdog is not None
        async with asyncio.timeout(timeout):
            return self._with_own(await self._watchdog.fresh_figures())

    def _with_own(self, figures: Figures) -> Figures:
        return figures | {"client_streams": len(self._inboxes)}

    def _ready_worker(self) -> WorkerHandle:
        """The worker. Raises what keeps it from taking requests."""
        if self._worker is None or self._state != "ready":
            raise self._failure.with_traceback(None)
        if self._watchdog is not None:
            self._watchdog.raise_if_unwell()
        return self._worker

    async def _voice(self, payload: bytes, scale: float = 1.0) -> Voice:
        """Ask the reference encoder, which works in a thread of its own and may hang alone."""
        worker = self._ready_worker()
        asked, timeout = time.monotonic(), scale * _VOICE_STALLS * self._config.stall_seconds
        try:
            async with asyncio.timeout(timeout):
                answer = await self._open(worker, payload, self._inboxes).ending()
        except TimeoutError:
            if self._voice_answered < asked:
                self._kill(worker, "stalled", f"its reference encoder has not answered for {timeout:g} s")
            raise EngineUnavailable(
                f"the reference encoder did not answer within {timeout:g} s", code="engine_stalled"
            ) from None
        except EngineError:
            self._voice_answered = time.monotonic()
            raise
        self._voice_answered = time.monotonic()
        return decoded_voice(answer)

    def _open(self, worker: WorkerHandle, payload: bytes, inboxes: dict[int, Inbox]) -> Inbox:
        number = next(self._numbers)
        inbox = Inbox(number, worker, inboxes)
        try:
            worker.requests.open(number, payload)
        except TransferError as error:
            inboxes.pop(number, None)
            raise unreachable(error) from error
        return inbox

    def _launch(self) -> None:
        self._starts += 1
        holder: list[WorkerHandle] = []

        def deliver(asked: list[Record], heard: list[Record]) -> None:
            self._loop.call_soon_threadsafe(lambda: self._receive(holder[0], asked, heard))

        def gone() -> None:
            self._loop.call_soon_threadsafe(lambda: self._lose(holder[0], "crashed"))

        self._worker = worker = WorkerHandle(self._config, deliver, gone)
        holder.append(worker)
        if self._info is not None:
            self._load_timer = self._loop.call_later(self._config.load_seconds, self._end_overdue_load, worker)

    def _end_overdue_load(self, worker: WorkerHandle) -> None:
        if self._worker is worker and self._state == "starting":
            self._kill(worker, "stalled", f"it was not ready within {self._config.load_seconds:g} s")

    def _receive(self, worker: WorkerHandle, asked: list[Record], heard: list[Record]) -> None:
        if self._worker is not worker:
            return  # it was killed, and its streams have failed
        for record in asked:
            if record.stream == READY:
                self._hear_readiness(worker, record)
            elif record.kind in (Kind.END, Kind.FAIL):
                self._put(record)
        if self._watchdog is not None:
            self._tell_watchdog(self._watchdog, heard)
        for record in heard:
            self._put(record)

    def _tell_watchdog(self, watchdog: Watchdog, heard: list[Record]) -> None:
        """What the audio link says of the models: audio of a request, or a failure that is not the caller's."""
        for record in heard:
            if record.stream not in self._inboxes:
                continue
            if record.kind is Kind.DATA:
                watchdog.audio_came()
            elif record.kind is Kind.FAIL and _is_engines_fault(record.payload):
                watchdog.request_failed()

    def _put(self, record: Record) -> None:
        inbox = self._inboxes.get(record.stream) or self._probes.get(record.stream)
        if inbox is not None:
            inbox.put(record)

    def _hear_readiness(self, worker: WorkerHandle, record: Record) -> None:
        if record.kind is Kind.END:
            info = EngineInfo.from_bytes(record.payload)
            self._verification = self._loop.create_task(self._verify(worker, info))
        elif record.kind is Kind.FAIL and record.payload:
            error = EngineError.from_bytes(record.payload)
            if isinstance(error, CheckpointError) and self._info is None:
                self._become("failed", error)
            else:
                _log.error("the engine could not start: %s", error)

    async def _verify(self, worker: WorkerHandle, info: EngineInfo) -> None:
        """A loaded engine is ready once it has spoken a short utterance; the watchdog watches it from now on."""
        self._watchdog = Watchdog(
            self._config,
            info,
            open_stream=lambda payload: self._open(worker, payload, self._probes),
            in_flight=lambda: len(self._inboxes),
            kill=lambda reason, message: self._kill(worker, reason, message),
        )
        try:
            await self._watchdog.check_models(_FIRST_CHECK_STALLS * self._config.stall_seconds)
        except Exception as error:
            self._kill(worker, "failed", f"it is loaded and cannot speak: {error}")
            return
        self._info = info
        self._backoff = _FIRST_BACKOFF_S
        self._become("ready", EngineUnavailable("the engine is restarting"))

    def _kill(self, worker: WorkerHandle, reason: Reason, message: str) -> None:
        """Kill the worker with everything it has started. Void where it is lost already."""
        if self._worker is worker:
            _log.error("killing the engine process %d: %s", worker.process.pid, message)
            worker.kill()
            self._lose(worker, reason)

    def _lose(self, worker: WorkerHandle, reason: Reason) -> None:
        """The worker is gone: its streams fail, and a new one is started after a pause. Void on a second call."""
        if self._worker is not worker:
            return
        self._worker = None
        self._stop_watching()
        if self._info is None and self._starts >= _STARTS and self._state != "failed":
            self._become("failed", EngineFailed("the engine could not be started; its log says why"))
        if self._state != "failed":
            self._become("starting", EngineUnavailable("the engine is restarting"))
        self._fail_all(EngineFailed("the engine process ended unexpectedly", code="engine_lost"))
        self._ending = self._loop.create_task(asyncio.to_thread(worker.close))
        self._restart = self._loop.create_task(self._replace(worker, self._ending, reason))

    async def _replace(self, worker: WorkerHandle, ending: asyncio.Future[None], reason: Reason) -> None:
        await asyncio.wait({ending})
        if self._state == "failed":
            return
        _log.error("the engine process ended with %s (%s); restarting it", worker.process.returncode, reason)
        self._restarts[reason] += 1
        while self._worker is None:
            await asyncio.sleep(self._backoff)
            self._backoff = min(2 * self._backoff, _LONGEST_BACKOFF_S)
            try:
                self._launch()
            except Exception:
                _log.exception("the engine process could not be started")

    def _stop_watching(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
        if self._verification is not None:
            self._verification.cancel()
        if self._load_timer is not None:
            self._load_timer.cancel()

    def _fail_all(self, error: EngineError) -> None:
        for inbox in [*self._inboxes.values(), *self._probes.values()]:
            inbox.fail(error)

    def _become(self, state: State, failure: EngineError) -> None:
        """Enter a state, and what is raised while it is not "ready"; whoever waits for a change looks again."""
        self._state, self._failure = state, failure
        self._changed.set()
        self._changed = asyncio.Event()


def _is_engines_fault(payload: bytes) -> bool:
    """Whether a FAIL record reports a failure of the models, and not a bad request or the end of the process."""
    return bool(payload) and isinstance(EngineError.from_bytes(payload), EngineFailed)

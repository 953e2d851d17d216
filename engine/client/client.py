"""Sends requests to the engine process, and tracks its state. Imports no torch."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.client.open_requests import OpenRequests
from engine.client.process import EngineProcess
from engine.client.restarts import EngineRestarts
from engine.client.stream import ResponseQueue, SpeechStream
from engine.client.voice_requests import Kill, VoiceRequests
from engine.client.watchdog import Reason, Stats, Watchdog, is_model_failure
from engine.config import EngineConfig
from engine.errors import CheckpointError, EngineError, EngineFailed, EngineUnavailable
from engine.protocol.engine import OnEngine, ignore_engine
from engine.protocol.messages import READY, RequestKind, pack_request
from engine.protocol.request import EngineInfo, SpeechRequest, Voice
from engine.transfer import Kind, Record, Side

State = Literal["starting", "ready", "failed", "closed"]
_FIRST_CHECK_TIMEOUT_STALLS = 3
"""Timeout of the first model check, as a multiple of ``stall_seconds``. The watchdog kills a pipeline that hangs."""
_log = logging.getLogger(__name__)


class EngineClient:
    """Starts the engine process, restarts it when it exits or stalls, and sends it requests.

    Use it in one event loop. Only starting a process blocks the event loop, for a few milliseconds.

    Args:
        config: the configuration of the engine process.
        name: of the engine, for ``engines`` and the log.
        on_change: is called in the event loop when ``state``, ``accepting``, ``suspect`` or ``stalled`` may have
            changed.
    """

    def __init__(self, config: EngineConfig, name: str = "0", on_change: Callable[[], None] = lambda: None) -> None:
        self._config = config
        self._name, self._on_change = name, on_change
        self._state: State = "starting"
        self._info: EngineInfo | None = None
        self._failure: EngineError = EngineUnavailable("the engine is starting; retry later")
        self._changed = asyncio.Event()
        numbers = itertools.count(READY + 1)
        self._open_requests, self._probes = OpenRequests(numbers), OpenRequests(numbers)
        self._worker: EngineProcess | None = None
        self._watchdog: Watchdog | None = None
        self._verification: asyncio.Task[None] | None = None
        self._load_timer: asyncio.TimerHandle | None = None
        self._restarts = EngineRestarts(self._launch, name)
        self._voices = VoiceRequests(config.stall_seconds, self._open_voice_request)

    @property
    def state(self) -> State:
        """The state: starting (or restarting), ready, failed (permanently) or closed."""
        return self._state

    @property
    def info(self) -> EngineInfo:
        """What the loaded checkpoint can do. Raises an EngineError that says why if the state is not "ready"."""
        if self._info is None or self._state != "ready":
            raise self._failure.with_traceback(None)
        return self._info

    @property
    def engines(self) -> Mapping[str, EngineClient]:
        """This engine, by its name."""
        return {self._name: self}

    @property
    def accepting(self) -> bool:
        """Whether the engine accepts requests, as far as is known."""
        try:
            self._ready_worker()
        except EngineError:
            return False
        return True

    @property
    def loaded(self) -> bool:
        """Whether the engine is loaded or being loaded: always."""
        return True

    @property
    def stalled(self) -> bool:
        """Whether the pipeline has not answered for half of ``stall_seconds``."""
        return self._watchdog is not None and self._watchdog.stalled

    @property
    def suspect(self) -> bool:
        """Whether the models failed on a request or a check, and have produced no audio since."""
        return self._watchdog is not None and self._watchdog.suspect

    @property
    def open_streams(self) -> int:
        """Number of requests whose terminal record has not arrived."""
        return len(self._open_requests)

    @property
    def restarts(self) -> Mapping[str, int]:
        """Number of times the engine process was replaced, by reason."""
        return self._restarts.counts

    @property
    def last_stats(self) -> Stats | None:
        """The most recent statistics of the running engine process, or None."""
        stats = None if self._watchdog is None else self._watchdog.stats
        return None if stats is None else self._with_client_stats(stats)

    def check_health(self) -> None:
        """Raise EngineUnavailable or CheckpointError if the engine is known to be unable to synthesize. Never waits.

        If the engine is idle and has produced no audio recently, this starts a model check in the background. The next
        call sees its result.
        """
        self._ready_worker()
        if self._watchdog is not None:
            self._watchdog.check_if_idle()

    def check_accepting(self) -> None:
        """Raise the EngineError that says why the engine accepts no requests, if it does not. Never waits."""
        self._ready_worker()

    @property
    def runs(self) -> int:
        """Number of engine processes that were started."""
        return self._restarts.starts

    def join(self, peer: int) -> tuple[Side, Side]:
        """Return the sides of a request link and an audio link with which another process uses the engine process.

        peer: the number of these links, from 1, which was not used before. Raises EngineError or OSError.
        """
        return self._ready_worker().join(peer)

    def report_model_failure(self) -> None:
        """Check the models, because they failed on a request of another process."""
        if self._watchdog is not None:
            self._watchdog.request_failed()

    async def start(self) -> None:
        """Start the engine process. It loads the checkpoint in the background."""
        self._loop = asyncio.get_running_loop()
        self._restarts.start()

    async def close(self) -> None:
        """Stop the engine process. Open requests fail."""
        responsive = self._state == "ready" and not self.stalled
        closed = EngineUnavailable("the engine is closed")
        self._set_state("closed", closed)
        self._restarts.cancel()
        self._stop_watching()
        self._fail_all(closed)
        worker, self._worker = self._worker, None
        if worker is not None:
            if not responsive:
                worker.kill()
            await worker.close()
        await self._restarts.wait_closed()

    async def wait_ready(self, timeout: float | None = None) -> EngineInfo:
        """Wait until the engine is ready.

        Raises CheckpointError if the checkpoint cannot be loaded, and TimeoutError after ``timeout`` seconds.
        """
        async with asyncio.timeout(timeout):
            while self._state == "starting":
                await self._changed.wait()
        return self.info

    def announce(self) -> None:
        """Let the engine know that a request follows within milliseconds."""
        if self._worker is not None:
            self._worker.links.requests.announce()

    def submit(self, request: SpeechRequest, *, on_engine: OnEngine = ignore_engine) -> SpeechStream:
        """Start an utterance. Never waits. Raises EngineUnavailable if the engine cannot accept it."""
        worker = self._ready_worker()
        if self._watchdog is not None:
            self._watchdog.request_submitted()
        responses = self._open_requests.open(worker.links, pack_request(RequestKind.SPEECH, request.to_bytes()))
        on_engine(self._name, False)
        return SpeechStream(responses)

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        """Return the voice of a mono recording. In-context cloning needs ``codes`` and the transcript.

        Raises RequestError if the checkpoint cannot clone, and EngineUnavailable if the engine is not ready.
        """
        self._ready_worker()  # an engine that is not ready fails before the recording is resampled
        return await self._voices.encode(samples, sample_rate, codes=codes, transcript=transcript)

    async def speaker_voice(self, speaker: str) -> Voice:
        """Return a built-in speaker as a voice to clone. ``speaker`` must be spelled as in the checkpoint.

        Raises RequestError if there is no such speaker, and EngineUnavailable if the engine is not ready.
        """
        return await self._voices.speaker(speaker)

    async def stats(self, timeout: float) -> Stats:
        """Return statistics of both stages, from a probe that passes through the whole pipeline.

        Raises TimeoutError if the probe does not return within ``timeout`` seconds. Raises EngineUnavailable without
        waiting if the engine is not ready or is known not to answer.
        """
        self._ready_worker()
        assert self._watchdog is not None
        async with asyncio.timeout(timeout):
            return self._with_client_stats(await self._watchdog.fresh_stats())

    def _with_client_stats(self, stats: Stats) -> Stats:
        return stats | {"client_streams": len(self._open_requests)}

    def _ready_worker(self) -> EngineProcess:
        """Return the worker, or raise the EngineError that says why it cannot accept requests."""
        if self._worker is None or self._state != "ready":
            raise self._failure.with_traceback(None)
        if self._watchdog is not None:
            self._watchdog.raise_if_unhealthy()
        return self._worker

    def _open_voice_request(self, payload: bytes) -> tuple[ResponseQueue, Kill]:
        worker = self._ready_worker()
        return self._open_requests.open(worker.links, payload), partial(self._kill, worker, "stalled")

    def _launch(self) -> None:
        self._worker = worker = EngineProcess(
            self._config, self._receive, lambda ended: self._handle_exit(ended, "crashed")
        )
        if self._info is not None:
            self._load_timer = self._loop.call_later(self._config.load_seconds, self._kill_overdue_load, worker)

    def _kill_overdue_load(self, worker: EngineProcess) -> None:
        if self._worker is worker and self._state == "starting":
            self._kill(worker, "stalled", f"it was not ready within {self._config.load_seconds:g} s")

    def _receive(self, worker: EngineProcess, responses: list[Record], audio: list[Record]) -> None:
        if self._worker is not worker:
            return  # stale: this worker was killed, and its streams have failed
        for record in responses:
            if record.stream == READY:
                self._handle_ready(worker, record)
            elif record.kind in (Kind.END, Kind.FAIL):
                self._put(record)
        if self._watchdog is not None:
            self._report_to_watchdog(self._watchdog, audio)
        for record in audio:
            self._put(record)

    def _report_to_watchdog(self, watchdog: Watchdog, audio: list[Record]) -> None:
        """Report audio of requests to the watchdog, and failures that the request itself did not cause."""
        for record in audio:
            if record.stream not in self._open_requests:
                continue
            if record.kind is Kind.DATA:
                watchdog.audio_received()
            elif record.kind is Kind.FAIL and is_model_failure(record.payload):
                watchdog.request_failed()

    def _put(self, record: Record) -> None:
        self._open_requests.put(record)
        self._probes.put(record)

    def _handle_ready(self, worker: EngineProcess, record: Record) -> None:
        if record.kind is Kind.END:
            info = EngineInfo.from_bytes(record.payload)
            self._verification = self._loop.create_task(self._verify(worker, info))
        elif record.kind is Kind.FAIL and record.payload:
            error = EngineError.from_bytes(record.payload)
            if isinstance(error, CheckpointError) and self._info is None:
                self._set_state("failed", error)
            else:
                _log.error("engine %s could not be loaded: %s", self._name, error)

    async def _verify(self, worker: EngineProcess, info: EngineInfo) -> None:
        """Start the watchdog, and set the state to ready once the loaded engine has synthesized a short utterance."""
        self._watchdog = Watchdog(
            self._config,
            info,
            open_stream=lambda payload: self._probes.open(worker.links, payload),
            in_flight=lambda: len(self._open_requests),
            kill=lambda reason, message: self._kill(worker, reason, message),
            on_change=self._on_change,
        )
        try:
            await self._watchdog.check_models(_FIRST_CHECK_TIMEOUT_STALLS * self._config.stall_seconds)
        except Exception as error:
            self._kill(worker, "failed", f"its first model check failed: {error}")
            return
        self._info = info
        self._restarts.mark_ready()
        self._set_state("ready", EngineUnavailable("the engine is restarting; retry later"))

    def _kill(self, worker: EngineProcess, reason: Reason, message: str) -> None:
        """Kill the worker and every process that it started. No-op if the worker is already lost."""
        if self._worker is worker:
            _log.error("killing the engine process %d (engine %s): %s", worker.process.pid, self._name, message)
            worker.kill()
            self._handle_exit(worker, reason)

    def _handle_exit(self, worker: EngineProcess, reason: Reason) -> None:
        """Handle the loss of the worker: fail its streams and replace it, unless the state is "failed". Idempotent."""
        if self._worker is not worker:
            return
        self._worker = None
        self._stop_watching()
        if self._info is None and self._restarts.exhausted and self._state != "failed":
            message = f"the engine exited {self._restarts.starts} times before it was ready; see its log"
            self._set_state("failed", EngineFailed(message))
        failed = self._state == "failed"
        if not failed:
            self._set_state("starting", EngineUnavailable("the engine is restarting; retry later"))
        self._fail_all(EngineFailed("the engine process ended unexpectedly", code="engine_lost"))
        if failed:
            self._restarts.close_worker(worker)
        else:
            self._restarts.replace(worker, reason)

    def _stop_watching(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
        if self._verification is not None:
            self._verification.cancel()
        if self._load_timer is not None:
            self._load_timer.cancel()

    def _fail_all(self, error: EngineError) -> None:
        self._open_requests.fail_all(error)
        self._probes.fail_all(error)

    def _set_state(self, state: State, failure: EngineError) -> None:
        """Set the state, and the error to raise while it is not "ready". Wake up the waiters for a state change."""
        self._state, self._failure = state, failure
        self._changed.set()
        self._changed = asyncio.Event()
        self._on_change()

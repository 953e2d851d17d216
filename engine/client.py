"""The only door into the engine. Free of torch: the engine runs in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.config import EngineConfig
from engine.errors import CheckpointError, EngineError, EngineFailed, EngineUnavailable
from engine.messages import READY, Ask, EncodeRequest, ask, decoded_voice, speak
from engine.request import SAMPLE_RATE, EngineInfo, SpeechRequest, Voice
from engine.resampling import resample
from engine.speech_stream import Inbox, SpeechStream
from engine.transfer import Kind, Record, TransferError
from engine.worker_handle import WorkerHandle

State = Literal["starting", "ready", "failed", "closed"]
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_STARTS = 3
"""How often an engine that has never been ready is started before it counts as failed."""
_log = logging.getLogger(__name__)


class EngineClient:
    """Starts the engine process, restarts it when it breaks, and speaks with it. Lives in one event loop."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._state: State = "starting"
        self._info: EngineInfo | None = None
        self._failure: EngineError = EngineUnavailable("the engine is starting")
        self._changed = asyncio.Event()
        self._numbers = itertools.count(1)
        self._inboxes: dict[int, Inbox] = {}
        self._worker: WorkerHandle | None = None
        self._restart: asyncio.Task[None] | None = None
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

    async def start(self) -> None:
        """Start the engine process; it loads the checkpoint meanwhile."""
        self._loop = asyncio.get_running_loop()
        self._launch()

    async def close(self) -> None:
        """End the engine process; open requests fail."""
        closed = EngineUnavailable("the engine is closed")
        self._become("closed", closed)
        if self._restart is not None:
            self._restart.cancel()
        self._fail_all(closed)
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.to_thread(worker.close)

    async def wait_ready(self, timeout: float | None = None) -> EngineInfo:
        """Wait until the checkpoint is loaded. Raises CheckpointError if it cannot be, TimeoutError when late."""
        async with asyncio.timeout(timeout):
            while self._state == "starting":
                await self._changed.wait()
        return self.info

    def submit(self, request: SpeechRequest) -> SpeechStream:
        """Ask for an utterance. Raises EngineUnavailable while there is no engine."""
        worker = self._ready_worker()
        inbox = self._open(worker, speak(request))
        return SpeechStream(inbox)

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        """The voice of a mono recording; with ``codes``, and the transcript, for in-context cloning.

        Raises RequestError where the checkpoint cannot clone, EngineUnavailable while there is no engine.
        """
        worker = self._ready_worker()
        heard = await asyncio.to_thread(resample, samples, sample_rate, SAMPLE_RATE)
        inbox = self._open(worker, ask(Ask.ENCODE, EncodeRequest(heard, codes).to_bytes()))
        payload = await inbox.ending()
        voice = decoded_voice(payload)
        return Voice(voice.embedding, voice.codes, transcript)

    async def speaker_voice(self, speaker: str) -> Voice:
        """A built-in speaker, by the checkpoint's own spelling, as a voice to clone.

        Raises RequestError where there is no such speaker, EngineUnavailable while there is no engine.
        """
        inbox = self._open(self._ready_worker(), ask(Ask.SPEAKER, speaker.encode()))
        return decoded_voice(await inbox.ending())

    async def stats(self, timeout: float) -> dict[str, int]:
        """Figures of both stages, brought by a stream that has been through the whole pipeline.

        Raises TimeoutError when it does not come through, EngineUnavailable while there is no engine.
        """
        inbox = self._open(self._ready_worker(), ask(Ask.PROBE))
        async with asyncio.timeout(timeout):
            figures: dict[str, int] = json.loads(await inbox.ending())
        return figures | {"client_streams": len(self._inboxes)}

    def _ready_worker(self) -> WorkerHandle:
        if self._worker is None or self._state != "ready":
            raise self._failure.with_traceback(None)
        return self._worker

    def _open(self, worker: WorkerHandle, payload: bytes) -> Inbox:
        number = next(self._numbers)
        inbox = Inbox(number, worker, self._inboxes)
        try:
            worker.requests.open(number, payload)
        except TransferError as error:
            self._inboxes.pop(number, None)
            raise EngineUnavailable(f"the engine cannot be reached: {error}") from error
        return inbox

    def _launch(self) -> None:
        self._starts += 1
        holder: list[WorkerHandle] = []

        def deliver(asked: list[Record], heard: list[Record]) -> None:
            self._loop.call_soon_threadsafe(self._receive, asked, heard)

        def gone() -> None:
            self._loop.call_soon_threadsafe(self._lose, holder)

        self._worker = WorkerHandle(self._config, deliver, gone)
        holder.append(self._worker)

    def _receive(self, asked: list[Record], heard: list[Record]) -> None:
        for record in asked:
            if record.stream == READY:
                self._hear_readiness(record)
            elif record.kind in (Kind.END, Kind.FAIL):
                self._put(record)
        for record in heard:
            self._put(record)

    def _put(self, record: Record) -> None:
        inbox = self._inboxes.get(record.stream)
        if inbox is not None:
            inbox.put(record)

    def _hear_readiness(self, record: Record) -> None:
        if record.kind is Kind.END:
            self._info = EngineInfo.from_bytes(record.payload)
            self._backoff = _FIRST_BACKOFF_S
            self._become("ready", EngineUnavailable("the engine is restarting"))
        elif record.kind is Kind.FAIL and record.payload:
            error = EngineError.from_bytes(record.payload)
            if isinstance(error, CheckpointError) and self._info is None:
                self._become("failed", error)
            else:
                _log.error("the engine could not start: %s", error)

    def _lose(self, holder: list[WorkerHandle]) -> None:
        """The worker is gone: its streams fail, and a new one is started after a pause."""
        if self._state == "closed" or not holder or self._worker is not holder[0]:
            return
        self._fail_all(EngineFailed("the engine process ended unexpectedly", code="engine_lost"))
        self._restart = self._loop.create_task(self._replace(holder[0]))

    async def _replace(self, worker: WorkerHandle) -> None:
        self._worker = None
        if self._info is None and self._starts >= _STARTS and self._state != "failed":
            self._become("failed", EngineFailed("the engine could not be started; its log says why"))
        if self._state != "failed":
            self._become("starting", EngineUnavailable("the engine is restarting"))
        await asyncio.to_thread(worker.close)
        if self._state == "failed":
            return
        _log.error("the engine process ended with %s; restarting it", worker.process.returncode)
        while self._worker is None:
            await asyncio.sleep(self._backoff)
            self._backoff = min(2 * self._backoff, _LONGEST_BACKOFF_S)
            try:
                self._launch()
            except OSError:
                _log.exception("the engine process could not be started")

    def _fail_all(self, error: EngineError) -> None:
        for inbox in list(self._inboxes.values()):
            inbox.fail(error)

    def _become(self, state: State, failure: EngineError) -> None:
        """Enter a state, and what is raised while it is not "ready"; whoever waits for a change looks again."""
        self._state, self._failure = state, failure
        self._changed.set()
        self._changed = asyncio.Event()

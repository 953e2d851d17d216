"""Decodes untrusted recordings in worker processes. This is the supervisor, which runs in the HTTP process.

libsndfile and FFmpeg parse untrusted input. A recording that crashes them, or makes them allocate gigabytes, must only
fail its own request. Therefore this process never decodes a recording itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from server.api_error import ApiError
from server.references.process_limits import Budget
from server.references.validation import RecordingLimits, invalid_recording, recording_too_large
from server.references.worker_process import WorkerLost, WorkerProcess
from server.references.worker_protocol import Status

_MAX_WORKERS = 2
_REPLY_GRACE_SECONDS = 15.0
"""Extra time after the child's own limits must have ended it. A worker that has not replied by then is stuck."""
_MAX_REASON_CHARS = 40
"""Maximum characters of a crash reason kept in ``outcomes``: the reason may contain parts of the recording."""
_log = logging.getLogger(__name__)


class _Slot:
    """A slot of the pool. Its worker is started when it is needed."""

    worker: WorkerProcess | None = None


class Decoder:
    """A pool of decoder workers, started on first use and replaced when they fail. Use it from one event loop only.

    Requests wait in a queue; at most as many are decoded at once as there are workers.

    Attributes:
        outcomes: number of recordings by status.
    """

    def __init__(self, limits: RecordingLimits, workers: int | None = None) -> None:
        self.use_limits(limits)
        self._slots = [_Slot() for _ in range(workers or min(_MAX_WORKERS, os.cpu_count() or 1))]
        self._idle: asyncio.LifoQueue[_Slot] = asyncio.LifoQueue()  # last in, first out: that slot already has a worker
        for slot in self._slots:
            self._idle.put_nowait(slot)
        self._running: set[asyncio.Task[NDArray[np.float32]]] = set()
        self._closed = False
        self.outcomes: Counter[str] = Counter()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process IDs of the running workers."""
        return tuple(slot.worker.pid for slot in self._slots if slot.worker is not None and slot.worker.alive)

    def use_limits(self, limits: RecordingLimits) -> None:
        """Change the limits of the recordings that are decoded from now on."""
        self._limits = limits
        self._timeout = Budget.of(limits).wall_seconds + _REPLY_GRACE_SECONDS

    async def decode(self, data: bytes) -> NDArray[np.float32]:
        """Decode a recording to mono samples at 24 kHz.

        Raises ApiError 400 when the recording is invalid, crashes its decoder or exceeds its limits, and 503 when no
        worker can be started. A cancelled call leaves the queue. If its recording is already being decoded, decoding
        continues to the end and the result is discarded.
        """
        if len(data) > self._limits.reference_max_bytes:
            raise recording_too_large(self._limits.reference_max_bytes)
        slot = await self._idle.get()
        task = asyncio.create_task(self._decode_in(slot, data))
        self._running.add(task)
        task.add_done_callback(self._finished)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._closed and task.cancelled():
                raise _unavailable() from None
            raise

    async def close(self) -> None:
        """Kill the workers. Recordings that are queued or being decoded fail with 503."""
        self._closed = True
        self._kill_workers()
        for task in self._running:
            task.cancel()  # it may be starting a worker, which can take long
        await asyncio.gather(*self._running, return_exceptions=True)
        for worker in self._kill_workers():  # includes a worker that was still starting
            await worker.wait()

    def _kill_workers(self) -> list[WorkerProcess]:
        workers = [slot.worker for slot in self._slots if slot.worker is not None]
        for worker in workers:
            worker.kill()
        return workers

    async def _decode_in(self, slot: _Slot, data: bytes) -> NDArray[np.float32]:
        try:
            worker = await self._worker_of(slot)
            try:
                async with asyncio.timeout(self._timeout):
                    status, payload = await worker.decode(data, self._limits)
                return self._samples(status, payload, len(data))
            except ApiError:
                raise
            except BaseException:
                worker.kill()
                raise
        except WorkerLost as error:
            if self._closed:
                raise _unavailable() from None
            self.outcomes["worker lost"] += 1
            _log.warning("reference decoder: lost a worker while it decoded %d bytes: %s", len(data), error)
            raise _undecodable() from None
        except TimeoutError:
            self.outcomes["worker stuck"] += 1
            _log.warning(
                "reference decoder: killed a worker that had not decoded %d bytes within %g s", len(data), self._timeout
            )
            raise _too_complex(f"more than {self._timeout:g} s") from None
        finally:
            self._idle.put_nowait(slot)

    async def _worker_of(self, slot: _Slot) -> WorkerProcess:
        """Return the slot's worker. Starts or replaces it if necessary. Raises ApiError 503."""
        self._check_open()
        if slot.worker is not None:
            if slot.worker.alive:
                return slot.worker
            _log.warning("reference decoder: worker (pid %d) has ended; starting another one", slot.worker.pid)
            slot.worker.kill()
            slot.worker = None
        try:
            worker = await WorkerProcess.start()
        except (OSError, RuntimeError, ValueError, WorkerLost) as error:  # TimeoutError is an OSError
            _log.error("reference decoder: could not start a worker: %s", str(error) or "timeout")
            raise _unavailable() from None
        slot.worker = worker
        self._check_open()
        return worker

    def _check_open(self) -> None:
        if self._closed:
            raise _unavailable()

    def _samples(self, status: Status, payload: bytes, size: int) -> NDArray[np.float32]:
        """Return the samples in the reply to a recording of ``size`` bytes. Raises ApiError, or WorkerLost."""
        self.outcomes[status.name] += 1
        if status is Status.DECODED:
            return _checked_samples(payload)
        if status is Status.REFUSED:
            raise _error_in(payload)
        reason = payload.decode(errors="replace")
        _log.warning("reference decoder: could not decode %d bytes: %s, %s", size, status.name.lower(), reason)
        match status:
            case Status.OUT_OF_MEMORY | Status.OUT_OF_TIME:
                raise _too_complex(reason)
            case Status.CRASHED:
                self.outcomes[f"CRASHED: {reason.partition(':')[0][:_MAX_REASON_CHARS]}"] += 1
                raise _undecodable()
            case Status.NOT_STARTED:
                raise _unavailable()
        raise WorkerLost(f"the worker sent the status {status.name} for a recording")

    def _finished(self, task: asyncio.Task[NDArray[np.float32]]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: a cancelled caller does not


def _checked_samples(payload: bytes) -> NDArray[np.float32]:
    """Return the samples in a payload. Raises WorkerLost when they are invalid.

    The payload is untrusted: a malicious recording may have taken control of the process that sent it.
    """
    if len(payload) % 4 or not payload:
        raise WorkerLost(f"the worker sent {len(payload)} bytes as samples, not a multiple of 4 above 0")
    samples = np.frombuffer(payload, np.float32)
    if not np.isfinite(samples).all():
        raise WorkerLost("the worker sent samples that are not finite")
    return samples


def _error_in(payload: bytes) -> ApiError:
    """Return the error in a payload. Raises WorkerLost when it cannot be parsed."""
    try:
        error = json.loads(payload)
        return ApiError(str(error["message"]), param="ref_audio", code=str(error["code"]))
    except (ValueError, LookupError, TypeError):
        raise WorkerLost("the worker sent an error that cannot be parsed") from None


def _undecodable() -> ApiError:
    return invalid_recording("decoding failed because the file is damaged", "reference_undecodable")


def _too_complex(reason: str) -> ApiError:
    return invalid_recording(f"decoding needs {reason}; send a simpler file, such as a WAV", "reference_too_complex")


def _unavailable() -> ApiError:
    return ApiError(
        "Recordings cannot be decoded at the moment; try again later.", status=503, code="decoder_unavailable"
    )

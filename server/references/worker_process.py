"""The supervisor's handle of one decoder worker process. Runs in the HTTP process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Self

from server.references.validation import RecordingLimits
from server.references.worker_protocol import REPLY, RequestHeader, Status, max_payload_bytes

_START_SECONDS = 60.0
_WRITE_BYTES = 256 * 1024
_BUFFER_BYTES = 1024 * 1024
_INHERITED = frozenset(
    "PATH HOME LANG VIRTUAL_ENV TMPDIR PYTHONPATH PYTHONHOME PYTHONUTF8 PYTHONDONTWRITEBYTECODE".split()
)
_INHERITED_PREFIXES = ("LC_", "LD_", "DYLD_")
"""Environment variables that a worker inherits. It decodes untrusted input and gets no secrets."""
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Keeps numeric libraries from starting threads. The worker forks, which is safe only with one thread."""


class WorkerLost(Exception):
    """The worker exited or violated the protocol, as the message says, and is no longer usable."""


class WorkerProcess:
    """A running worker. Decodes one recording at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._killed = False
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    @classmethod
    async def start(cls) -> Self:
        """Start a worker and wait until it is ready. Raises OSError, WorkerLost, or TimeoutError."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "server.references",
            str(os.getpid()),
            stdin=PIPE,
            stdout=PIPE,
            limit=_BUFFER_BYTES,
            env=_environment(),
            process_group=0,  # own group: kill() reaches the child, too; same session as the HTTP process
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                status, _ = await worker._reply(0)
            if status is not Status.READY:
                raise WorkerLost(f"the first reply must be {Status.READY.name}, got {status.name}")
        except BaseException:
            worker.kill()
            raise
        return worker

    @property
    def pid(self) -> int:
        """Process ID of the worker."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the worker is usable, as far as is known."""
        return not self._killed and self._process.returncode is None and not self._stdout.at_eof()

    async def decode(self, data: bytes, limits: RecordingLimits) -> tuple[Status, bytes]:
        """Decode one recording. Return the worker's status and payload. Raises WorkerLost.

        A cancelled call leaves its reply unread: the caller must kill the worker then.
        """
        try:
            self._stdin.write(RequestHeader(limits, len(data)).to_bytes())
            view = memoryview(data)
            for start in range(0, len(data), _WRITE_BYTES):
                self._stdin.write(view[start : start + _WRITE_BYTES])
                await self._stdin.drain()
        except OSError as error:
            raise WorkerLost(f"the worker does not read requests: {error}") from None
        return await self._reply(max_payload_bytes(limits))

    def kill(self) -> None:
        """Kill the worker and its child. The event loop reaps it."""
        self._killed = True
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._stdin.close()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await self._process.wait()

    async def _reply(self, max_bytes: int) -> tuple[Status, bytes]:
        """Read the next reply. Raises WorkerLost, also when its payload has more than ``max_bytes`` bytes."""
        try:
            number, size = REPLY.unpack(await self._stdout.readexactly(REPLY.size))
            if number > max(Status) or size > max_bytes:
                raise WorkerLost(
                    f"the worker sent a reply of status {number} with {size} bytes, at most {max_bytes} are valid"
                )
            return Status(number), await self._stdout.readexactly(size)
        except (asyncio.IncompleteReadError, OSError):
            raise WorkerLost("the worker exited") from None


def _environment() -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    return {**inherited, **_ONE_THREAD}

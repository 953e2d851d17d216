"""The decoder worker: ``python -m server.references PARENT_PID``.

It reads recordings from standard input and writes samples to standard output (``worker_protocol.py``). Each recording
is decoded in a forked child with strict limits. A recording that crashes libsndfile or FFmpeg, or exhausts memory or
time, ends only its own child. The worker itself never parses untrusted data. Forking is safe because the worker has
one thread, and cheap because all imports are done before.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import struct
import sys
from contextlib import suppress
from enum import IntEnum
from typing import NoReturn

from engine.system.process import die_with_parent
from server.api_error import ApiError
from server.references.decoders import decode_samples
from server.references.process_limits import (
    Budget,
    address_space_bytes,
    prefer_for_oom_kill,
    restrict,
)
from server.references.validation import RecordingLimits
from server.references.worker_protocol import (
    MAX_TEXT_BYTES,
    REPLY,
    REQUEST,
    RequestHeader,
    Status,
    WireLimits,
    max_payload_bytes,
)

_PIPE_BYTES = 1024 * 1024

Reply = tuple[Status, bytes | bytearray]


class _Exit(IntEnum):
    """Exit codes of the child."""

    DECODED = 0
    REFUSED = 10
    OUT_OF_MEMORY = 11
    FAILED = 12


def main() -> None:
    """Decode recordings until end of file on standard input, which comes when the HTTP process exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent(int(sys.argv[1]))
    prefer_for_oom_kill()
    requests = os.fdopen(0, "rb", closefd=False)
    replies = os.dup(1)
    os.dup2(2, 1)  # library output on stdout must not reach the supervisor as a reply
    _warm_up()
    gc.collect()
    gc.freeze()  # keeps the garbage collector from writing to pages shared with the children (copy-on-write)
    with suppress(BrokenPipeError):
        _send(replies, (Status.READY, b""))
        while len(head := requests.read(REQUEST.size)) == REQUEST.size:
            header = RequestHeader.from_bytes(head)
            data = requests.read(header.size)
            if len(data) < header.size:
                return
            _send(replies, _decode_in_child(data, header.limits))


def _decode_in_child(data: bytes, limits: RecordingLimits) -> Reply:
    """Fork a child that decodes ``data``, and wait for its result."""
    size = address_space_bytes()
    budget = Budget.of(limits)
    results, child_results = os.pipe()
    worker = os.getpid()
    try:
        child = os.fork()
    except OSError as error:
        os.close(results)
        os.close(child_results)
        return Status.NOT_STARTED, str(error).encode()
    if child == 0:
        _run_child(data, limits, child_results, budget, size, worker)
    os.close(child_results)
    max_bytes = max_payload_bytes(limits)
    payload = _read(results, max_bytes)
    os.close(results)
    if len(payload) > max_bytes:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if len(payload) > max_bytes:
        return Status.CRASHED, f"the result has more than {max_bytes} bytes".encode()
    return _reply(os.waitstatus_to_exitcode(status), payload, budget)


def _run_child(
    data: bytes, limits: RecordingLimits, results: int, budget: Budget, address_space: int | None, worker: int
) -> NoReturn:
    """Apply the limits, decode ``data`` and write the result to the descriptor ``results``. Never returns."""
    status = _Exit.FAILED
    try:
        die_with_parent(worker)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(results, 3)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.closerange(4, 256)
        restrict(budget, address_space)
        status, result = _decode(data, limits)
        _write(3, result)
    except MemoryError:
        status = _Exit.OUT_OF_MEMORY
    finally:
        os._exit(status)


def _decode(data: bytes, limits: RecordingLimits) -> tuple[_Exit, memoryview | bytes]:
    """Return the child's exit code and result. Raises MemoryError."""
    try:
        return _Exit.DECODED, decode_samples(data, limits).data.cast("B")
    except ApiError as error:
        return _Exit.REFUSED, json.dumps({"message": error.message, "code": error.code}).encode()[:MAX_TEXT_BYTES]
    except MemoryError:
        raise
    except Exception as error:
        return _Exit.FAILED, repr(error).encode(errors="replace")[:MAX_TEXT_BYTES]


def _reply(exit_code: int, payload: bytearray, budget: Budget) -> Reply:
    """Return the reply for a child that ended with ``exit_code``, which is negative for a signal."""
    match exit_code:
        case _Exit.DECODED:
            return Status.DECODED, payload
        case _Exit.REFUSED:
            return Status.REFUSED, payload
        case _Exit.OUT_OF_MEMORY:
            return Status.OUT_OF_MEMORY, f"more than {budget.memory_bytes >> 20} MiB of memory".encode()
    if exit_code >= 0:
        return Status.CRASHED, b"exit status %d: " % exit_code + payload
    if -exit_code == signal.SIGXCPU:
        return Status.OUT_OF_TIME, f"more than {budget.cpu_seconds} s of CPU time".encode()
    if -exit_code == signal.SIGALRM:
        return Status.OUT_OF_TIME, f"more than {budget.wall_seconds} s".encode()
    with suppress(ValueError):
        return Status.CRASHED, signal.Signals(-exit_code).name.encode()
    return Status.CRASHED, b"signal %d" % -exit_code


def _read(descriptor: int, max_bytes: int) -> bytearray:
    """Read until end of file. Stops early after more than ``max_bytes`` bytes."""
    with suppress(OSError, AttributeError):  # Linux only: fewer reads than with the default 64 KiB pipe
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    payload = bytearray()
    while len(payload) <= max_bytes and (piece := os.read(descriptor, _PIPE_BYTES)):
        payload += piece
    return payload


def _send(descriptor: int, reply: Reply) -> None:
    status, payload = reply
    _write(descriptor, REPLY.pack(status, len(payload)))
    _write(descriptor, payload)


def _write(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _warm_up() -> None:
    """Decode once with both libraries, so that their lazy loading is done. The children cannot open files."""
    limits = WireLimits(0.0, 1.0, 2**20)
    samples = struct.pack("<800h", *range(-8000, 8000, 20))
    head = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    wav = b"WAVEfmt " + head + b"data" + struct.pack("<I", len(samples)) + samples
    amr = b"#!AMR\n" + (b"\x3c" + bytes(range(31))) * 5
    for recording in (b"RIFF" + struct.pack("<I", len(wav)) + wav, amr, b"not a recording"):
        with suppress(ApiError):
            decode_samples(recording, limits)

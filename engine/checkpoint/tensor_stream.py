"""Reads the tensors of a safetensors file in the order of the file, and verifies its checksum while reading.

The file is never memory-mapped. Overwriting a mapped file changes the weights of a running engine, and truncating it
kills the engine with SIGBUS.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Condition, Thread
from types import MappingProxyType
from typing import NamedTuple

import torch

from engine.checkpoint.checksums import Checksums
from engine.errors import CheckpointError

DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        "BF16": torch.bfloat16,
        "F16": torch.float16,
        "F32": torch.float32,
        "I8": torch.int8,
        "U8": torch.uint8,
    }
)
"""The dtypes that can be read, as safetensors spells them."""
_AHEAD_BYTES = 128 << 20
"""The thread waits while tensors of this size are in memory that were not taken. So a model that converts each tensor
is never in memory both as stored and as converted."""
_HASH_CHUNK_BYTES = 4 << 20
"""Minimum bytes to pass to the hashing thread at once. Each handover takes about 20 us."""


class Entry(NamedTuple):
    """A tensor in the header. dtype: as safetensors spells it. begin, end: byte offsets in the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Version(NamedTuple):
    """Identifies a version of a file, to detect changes."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @staticmethod
    def of(file: io.FileIO) -> Version:
        """Return the version of an open file."""
        status = os.fstat(file.fileno())
        return Version(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class TensorStream:
    """Reads tensors in a thread, slightly ahead of ``take``.

    Tensors that are taken in the order of the file are in memory only until they are taken. Before one that is taken
    out of order, all that precede it are read. Thread-safe.

    If the file has a checksum, another thread hashes the whole file during the read. It hashes the memory of the
    tensors, so that exactly the bytes in use are verified. So tensors must not be modified, and no result of theirs may
    be used, before ``finish`` has returned.

    Args:
        file: the open file, which the stream closes.
        path: of the file, for errors.
        header: the bytes before the first tensor.
        version: the version of the file that the header was read from.
        entries: the tensors to read.
        checksums: has the digest of the file, if it is to be verified.
        whole: read all tensors at once, instead of waiting for ``take``.
    """

    def __init__(
        self,
        file: io.FileIO,
        path: Path,
        *,
        header: bytes,
        version: Version,
        entries: Mapping[str, Entry],
        checksums: Checksums,
        whole: bool = False,
    ) -> None:
        self._path, self._header, self._version, self._checksums = path, header, version, checksums
        self._entries = dict(sorted(entries.items(), key=lambda item: item[1].begin))
        self._changed = Condition()
        self._ready: dict[str, torch.Tensor] = {}
        self._untaken = set(entries)
        self._ready_bytes = 0
        self._read_up_to = version.size if whole else 0
        """Offset in the file up to which to read without waiting."""
        self._ended = False
        self._error: BaseException | None = None
        Thread(target=self._run, args=(file,), name="checkpoint", daemon=True).start()

    def __contains__(self, name: object) -> bool:
        """Return whether a tensor can be taken."""
        return name in self._untaken

    def take(self, name: str) -> torch.Tensor:
        """Return a tensor and forget it. Raises CheckpointError if the file cannot be read."""
        with self._changed:
            tensor = self._wait_for(name)
            self._untaken.remove(name)
            del self._ready[name]
            self._ready_bytes -= tensor.nbytes
            self._changed.notify_all()
        return tensor

    def peek(self, name: str) -> torch.Tensor:
        """Return a tensor that can still be taken. Raises CheckpointError if the file cannot be read."""
        with self._changed:
            return self._wait_for(name)

    def finish(self) -> None:
        """Read the rest of the file, and forget the tensors that were not taken.

        Raises CheckpointError if the file does not match its checksum or was changed while it was read.
        """
        with self._changed:
            self._read_up_to = self._version.size
            self._untaken.clear()
            self._ready.clear()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended)
            if self._error is not None:
                raise self._error

    def _wait_for(self, name: str) -> torch.Tensor:
        self._read_up_to = max(self._read_up_to, self._entries[name].end)
        self._changed.notify_all()
        self._changed.wait_for(lambda: name in self._ready or self._ended)
        if name not in self._ready:
            assert self._error is not None
            raise self._error
        return self._ready[name]

    def _run(self, file: io.FileIO) -> None:
        try:
            with file, ThreadPoolExecutor(1, "checksum") as thread:
                self._read_all(file, thread)
        except BaseException as error:  # raised by ``take`` and ``finish``
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _read_all(self, file: io.FileIO, thread: ThreadPoolExecutor) -> None:
        self._check_unchanged(file)
        hasher = _Hasher(thread, self._header) if self._checksums.expected(self._path) is not None else None
        position = len(self._header)
        for name, entry in self._entries.items():
            self._wait_for_room(entry)
            if hasher is not None:
                self._hash_unused(file, position, entry.begin, hasher)
            tensor = torch.empty(entry.shape, dtype=DTYPES[entry.dtype])
            data = tensor.view(torch.uint8).numpy().data.cast("B")
            fill(file, self._path, entry.begin, data)
            position = entry.end
            if hasher is not None:
                hasher.add(data)
            self._publish(name, tensor)
            del tensor, data
        if hasher is not None:
            self._hash_unused(file, position, self._version.size, hasher)
            self._checksums.check(self._path, hasher.hexdigest())
        self._check_unchanged(file)

    def _wait_for_room(self, entry: Entry) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ready_bytes < _AHEAD_BYTES or entry.begin < self._read_up_to)

    def _publish(self, name: str, tensor: torch.Tensor) -> None:
        with self._changed:
            if name in self._untaken:
                self._ready[name] = tensor
                self._ready_bytes += tensor.nbytes
                self._changed.notify_all()

    def _hash_unused(self, file: io.FileIO, begin: int, end: int, hasher: _Hasher) -> None:
        """Hash the bytes of unused tensors in pieces, to limit memory use."""
        for start in range(begin, end, _HASH_CHUNK_BYTES):
            piece = memoryview(bytearray(min(_HASH_CHUNK_BYTES, end - start)))
            fill(file, self._path, start, piece)
            hasher.add(piece)
            hasher.wait()

    def _check_unchanged(self, file: io.FileIO) -> None:
        if Version.of(file) != self._version:
            raise CheckpointError(f"{self._path} was changed while it was loaded: restart when it is complete")


class _Hasher:
    """Computes a SHA-256 in another thread. The added memory must not change until ``wait`` returns."""

    def __init__(self, thread: ThreadPoolExecutor, begin: bytes) -> None:
        self._thread = thread
        self._digest = hashlib.sha256(begin)
        self._pending: list[memoryview] = []
        self._pending_bytes = 0
        self._last: Future[None] | None = None

    def add(self, data: memoryview) -> None:
        """Hash ``data`` after all data added before."""
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _HASH_CHUNK_BYTES:
            self._submit()

    def wait(self) -> None:
        """Block until all added data is hashed."""
        self._submit()
        if self._last is not None:
            self._last.result()

    def hexdigest(self) -> str:
        """Wait, and return the digest of all added data."""
        self.wait()
        return self._digest.hexdigest()

    def _submit(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending:
            if self._last is not None:
                self._last.result()  # bounds the memory that waits to be hashed
            self._last = self._thread.submit(self._update, pending)

    def _update(self, pending: list[memoryview]) -> None:
        for data in pending:
            self._digest.update(data)  # releases the GIL


def fill(file: io.FileIO, path: Path, offset: int, buffer: memoryview) -> None:
    """Read the bytes of a file from ``offset`` on into ``buffer``. Raises CheckpointError if the file is shorter."""
    file.seek(offset)
    filled = 0
    while filled < len(buffer):
        count = file.readinto(buffer[filled:])
        if not count:
            raise CheckpointError(f"{path} was truncated while it was read")
        filled += count

"""Reads a safetensors file: checks its header against the expected shapes, and reads its tensors into memory.

The file is never memory-mapped. Overwriting a mapped file changes the weights of a running engine, and truncating it
kills the engine with SIGBUS.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch

from engine.checkpoint.checksums import Checksums, unverified
from engine.checkpoint.layout import Shapes
from engine.errors import CheckpointError
from engine.system.regular_file import open_regular

_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
_COMPUTED_SUFFIX = ".inv_freq"
"""Suffix of the rotary frequencies that some tools save. They are never read, but computed from rope_theta."""
_PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
"""Maximum header size, which is also the limit of the safetensors library."""
_HASH_CHUNK_BYTES = 4 << 20
"""Minimum bytes to pass to the hashing thread at once. Each handover takes about 20 us."""


class _Entry(NamedTuple):
    """A tensor in the header. dtype: as safetensors spells it. begin, end: byte offsets in the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class TensorFile:
    """A safetensors file. Not thread-safe.

    Raises CheckpointError if the file is missing, truncated, changed while it is loaded, or not a safetensors file.
    """

    def __init__(self, path: Path, checksums: Checksums | None = None) -> None:
        self.path = path
        self._checksums = checksums or unverified(path.parent)
        self._prefetched: Future[dict[str, torch.Tensor]] | None = None
        with self._open() as file:
            self._version = _version_of(file)
            self._header, self._entries = self._read_header(file)

    def has_any(self, prefix: str) -> bool:
        """Return whether the name of any tensor starts with ``prefix``."""
        return any(name.startswith(prefix) for name in self._entries)

    def check(self, expected: Shapes) -> None:
        """Compare names, shapes and dtypes without reading data. Raises CheckpointError for the first mismatch.

        A part is the first component of a tensor's name. Tensors of other parts than the expected ones are ignored,
        because they are never read. An unexpected tensor in an expected part means that config.json describes another
        model.
        """
        for name, shape in expected.items():
            if name not in self._entries:
                raise CheckpointError(f"{self.path}: the tensor {name} {_format_shape(shape)} is missing")
            actual, dtype = self._entries[name].shape, self._entries[name].dtype
            if actual != shape:
                raise CheckpointError(
                    f"{self.path}: the tensor {name} must have the shape {_format_shape(shape)}, "
                    f"found {_format_shape(actual)}"
                )
            if dtype not in _DTYPES:
                dtypes = ", ".join(str(dtype_name).removeprefix("torch.") for dtype_name in _DTYPES.values())
                raise CheckpointError(f"{self.path}: the tensor {name} must have a dtype of {dtypes}, found {dtype}")
        parts = {name.split(".")[0] for name in expected}
        for name in sorted(self._entries.keys() - expected.keys()):
            if name.split(".")[0] in parts and not name.endswith(_COMPUTED_SUFFIX):
                raise CheckpointError(
                    f"{self.path}: the tensor {name} {_format_shape(self._entries[name].shape)} does not belong to "
                    "the model that config.json describes"
                )

    def prefetch(self, names: Collection[str]) -> None:
        """Start reading tensors in a thread. ``read`` returns each of them once, and raises errors of the thread."""
        executor = ThreadPoolExecutor(1, "checkpoint")
        self._prefetched = executor.submit(self._load, names)
        executor.shutdown(wait=False)

    def read(self, prefix: str, expected: Shapes) -> dict[str, torch.Tensor]:
        """Return the expected tensors under ``prefix``, in their stored dtype. Their names do not contain the prefix.

        Tensors do not share memory. They are verified before this returns, if the file has a checksum.
        """
        names = [name for name in expected if name.startswith(prefix)]
        if not names:
            return {}
        ready = self._prefetched.result() if self._prefetched is not None else {}
        tensors = {name: ready.pop(name) for name in names} if ready.keys() >= set(names) else self._load(names)
        return {name.removeprefix(prefix): tensors[name] for name in names}

    def peek(self, name: str) -> torch.Tensor:
        """Return one tensor. A later ``read`` can still return it."""
        ready = self._prefetched.result() if self._prefetched is not None else {}
        return ready[name] if name in ready else self._load([name])[name]

    def _load(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """Read tensors in the order of the file.

        If the file has a checksum, another thread hashes the whole file during the read. It hashes the memory of the
        tensors, so that exactly the bytes in use are verified. This returns only after the verification.
        """
        entries = {name: self._entries[name] for name in sorted(names, key=lambda name: self._entries[name].begin)}
        with self._open() as file, ThreadPoolExecutor(1, "checksum") as thread:
            self._check_unchanged(file)
            verified = self._checksums.expected(self.path) is not None
            hasher = _Hasher(thread, self._header) if verified else None
            position = len(self._header)
            tensors = {}
            for name, entry in entries.items():
                if hasher is not None:
                    self._hash_unused(file, position, entry.begin, hasher)
                tensors[name] = torch.empty(entry.shape, dtype=_DTYPES[entry.dtype])
                data = tensors[name].view(torch.uint8).numpy().data.cast("B")
                self._fill(file, entry.begin, data)
                position = entry.end
                if hasher is not None:
                    hasher.add(data)
            if hasher is not None:
                self._hash_unused(file, position, self._version.size, hasher)
                self._checksums.check(self.path, hasher.hexdigest())
            self._check_unchanged(file)
        return tensors

    def _hash_unused(self, file: io.FileIO, begin: int, end: int, hasher: _Hasher) -> None:
        """Hash the bytes of unused tensors in pieces, to limit memory use."""
        for start in range(begin, end, _HASH_CHUNK_BYTES):
            piece = memoryview(bytearray(min(_HASH_CHUNK_BYTES, end - start)))
            self._fill(file, start, piece)
            hasher.add(piece)
            hasher.wait()

    def _fill(self, file: io.FileIO, offset: int, buffer: memoryview) -> None:
        file.seek(offset)
        filled = 0
        while filled < len(buffer):
            count = file.readinto(buffer[filled:])
            if not count:
                raise CheckpointError(f"{self.path} was truncated while it was read")
            filled += count

    def _open(self) -> io.FileIO:
        try:
            return open_regular(self.path)
        except FileNotFoundError:
            raise _missing(self.path) from None
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}") from error

    def _check_unchanged(self, file: io.FileIO) -> None:
        if _version_of(file) != self._version:
            raise CheckpointError(f"{self.path} was changed while it was loaded: restart when it is complete")

    def _read_header(self, file: io.FileIO) -> tuple[bytes, dict[str, _Entry]]:
        """Return the bytes before the first tensor, and the tensors that the header describes."""
        size = self._version.size
        if size < _LENGTH_BYTES:
            raise self._malformed(f"it has {size} bytes, fewer than a header")
        length = bytearray(_LENGTH_BYTES)
        self._fill(file, 0, memoryview(length))
        count = int.from_bytes(length, "little")
        if count > min(_MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise self._malformed(f"its header would have {count} bytes")
        text = bytearray(count)
        self._fill(file, _LENGTH_BYTES, memoryview(text))
        start = _LENGTH_BYTES + count
        try:
            entries = dict(_entries(json.loads(text), start))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self._malformed(f"its header is not valid ({error})") from None
        end = start
        for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            if entry.begin != end or entry.end < entry.begin:
                raise self._malformed(f"the data of {name} does not start where the previous tensor ends")
            if entry.dtype in _DTYPES and entry.end - entry.begin != prod(entry.shape) * _DTYPES[entry.dtype].itemsize:
                raise self._malformed(
                    f"the tensor {name} {_format_shape(entry.shape)} has {entry.end - entry.begin} bytes"
                )
            end = entry.end
        if end != size:
            raise self._malformed(f"it has {size} bytes, and its header describes {end}")
        return bytes(length + text), entries

    def _malformed(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is not a valid safetensors file: {reason}")


class _Version(NamedTuple):
    """Identifies a version of a file, to detect changes."""

    device: int
    inode: int
    size: int
    modified_ns: int


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
            self._last = self._thread.submit(self._update, pending)

    def _update(self, pending: list[memoryview]) -> None:
        for data in pending:
            self._digest.update(data)  # releases the GIL


def _entries(header: dict[str, Any], start: int) -> Iterator[tuple[str, _Entry]]:
    for name, fields in header.items():
        if name == "__metadata__":
            continue
        begin, end = map(int, fields["data_offsets"])
        yield name, _Entry(str(fields["dtype"]), tuple(map(int, fields["shape"])), start + begin, start + end)


def _version_of(file: io.FileIO) -> _Version:
    status = os.fstat(file.fileno())
    return _Version(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _missing(path: Path) -> CheckpointError:
    folder = path.parent
    if list(folder.glob("model-*-of-*.safetensors")):
        return CheckpointError(f"{path} is missing; merge the parts of {folder} into this one file")
    pickles = sorted(file.name for pattern in _PICKLE_PATTERNS for file in folder.glob(pattern))
    if pickles:
        return CheckpointError(
            f"{path} is missing; {pickles[0]} is a pickle, which can run code and is never loaded: "
            "convert it to safetensors"
        )
    return CheckpointError(f"{path} is missing")


def _format_shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"

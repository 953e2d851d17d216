"""A safetensors file: checks its header against the expected shapes, and reads its tensors into memory."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from math import prod
from pathlib import Path
from typing import Any, Protocol

import torch

from engine.checkpoint.checksums import Checksums, unverified
from engine.checkpoint.layout import Shapes
from engine.checkpoint.packing import CODE_DTYPES
from engine.checkpoint.tensor_stream import DTYPES, Entry, TensorStream, Version, fill
from engine.errors import CheckpointError
from engine.system.regular_file import open_regular

_FLOATS = ("BF16", "F16", "F32")
_COMPUTED_SUFFIX = ".inv_freq"
"""Suffix of the rotary frequencies that some tools save. They are never read, but computed from rope_theta."""
_PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
"""Maximum header size, which is also the limit of the safetensors library."""


class TensorSource(Protocol):
    """Tensors by name. A dict is one."""

    def __contains__(self, name: object, /) -> bool:
        """Return whether the tensor exists."""

    def __getitem__(self, name: str, /) -> torch.Tensor:
        """Return a tensor."""

    def pop(self, name: str, /) -> torch.Tensor:
        """Return a tensor and forget it."""


class TensorFile:
    """A safetensors file. Not thread-safe.

    Raises CheckpointError if the file is missing, truncated, changed while it is loaded, or not a safetensors file.
    """

    def __init__(self, path: Path, checksums: Checksums | None = None) -> None:
        self.path = path
        self._checksums = checksums or unverified(path.parent)
        self._stream: TensorStream | None = None
        with self._open() as file:
            self._version = Version.of(file)
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
            allowed = CODE_DTYPES.get(name.rsplit(".", 1)[-1], _FLOATS)
            if dtype not in allowed:
                dtypes = ", ".join(str(DTYPES[each]).removeprefix("torch.") for each in allowed)
                raise CheckpointError(f"{self.path}: the tensor {name} must have a dtype of {dtypes}, found {dtype}")
        parts = {name.split(".")[0] for name in expected}
        for name in sorted(self._entries.keys() - expected.keys()):
            if name.split(".")[0] in parts and not name.endswith(_COMPUTED_SUFFIX):
                raise CheckpointError(
                    f"{self.path}: the tensor {name} {_format_shape(self._entries[name].shape)} does not belong to "
                    "the model that config.json describes"
                )

    def prefetch(self, names: Collection[str], *, whole: bool = False) -> None:
        """Start reading tensors in a thread. ``read`` and ``take`` return each of them once.

        They must not be used before ``verify`` has returned. whole: see ``TensorStream``.
        """
        self._stream = self._start(names, whole=whole)

    @property
    def prefetching(self) -> bool:
        """Whether ``verify`` has not been called since ``prefetch``."""
        return self._stream is not None

    def take(self, name: str) -> torch.Tensor:
        """Return a prefetched tensor and forget it. Raises KeyError if it was taken before."""
        if self._stream is None or name not in self._stream:
            raise KeyError(name)
        return self._stream.take(name)

    def verify(self) -> None:
        """Read the rest of the file, and forget the prefetched tensors that were not taken.

        Raises CheckpointError if the file does not match its checksum or was changed since ``prefetch``.
        """
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.finish()

    def read(self, prefix: str, expected: Shapes) -> dict[str, torch.Tensor]:
        """Return the expected tensors under ``prefix``, in their stored dtype. Their names do not contain the prefix.

        Tensors do not share memory. They are verified before this returns, if the file has a checksum, unless they are
        prefetched: then ``verify`` does it.
        """
        names = [name for name in expected if name.startswith(prefix)]
        if not names:
            return {}
        if self._stream is not None and all(name in self._stream for name in names):
            tensors = {name: self._stream.take(name) for name in self._in_file_order(names)}
        else:
            tensors = self._load(names)
        return {name.removeprefix(prefix): tensors[name] for name in names}

    def peek(self, name: str) -> torch.Tensor:
        """Return one tensor. A later ``read`` or ``take`` can still return it."""
        return (
            self._stream.peek(name) if self._stream is not None and name in self._stream else self._load([name])[name]
        )

    def _load(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """Return verified tensors."""
        stream = self._start(names)
        tensors = {name: stream.take(name) for name in self._in_file_order(names)}
        stream.finish()
        return tensors

    def _start(self, names: Collection[str], *, whole: bool = False) -> TensorStream:
        entries = {name: self._entries[name] for name in names}
        return TensorStream(
            self._open(),
            self.path,
            header=self._header,
            version=self._version,
            entries=entries,
            checksums=self._checksums,
            whole=whole,
        )

    def _in_file_order(self, names: Collection[str]) -> list[str]:
        return sorted(names, key=lambda name: self._entries[name].begin)

    def _open(self) -> io.FileIO:
        try:
            return open_regular(self.path)
        except FileNotFoundError:
            raise _missing(self.path) from None
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}") from error

    def _read_header(self, file: io.FileIO) -> tuple[bytes, dict[str, Entry]]:
        """Return the bytes before the first tensor, and the tensors that the header describes."""
        size = self._version.size
        if size < _LENGTH_BYTES:
            raise self._malformed(f"it has {size} bytes, fewer than a header")
        length = bytearray(_LENGTH_BYTES)
        fill(file, self.path, 0, memoryview(length))
        count = int.from_bytes(length, "little")
        if count > min(_MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise self._malformed(f"its header would have {count} bytes")
        text = bytearray(count)
        fill(file, self.path, _LENGTH_BYTES, memoryview(text))
        start = _LENGTH_BYTES + count
        try:
            entries = dict(_entries(json.loads(text), start))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self._malformed(f"its header is not valid ({error})") from None
        end = start
        for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            if entry.begin != end or entry.end < entry.begin:
                raise self._malformed(f"the data of {name} does not start where the previous tensor ends")
            if entry.dtype in DTYPES and entry.end - entry.begin != prod(entry.shape) * DTYPES[entry.dtype].itemsize:
                raise self._malformed(
                    f"the tensor {name} {_format_shape(entry.shape)} has {entry.end - entry.begin} bytes"
                )
            end = entry.end
        if end != size:
            raise self._malformed(f"it has {size} bytes, and its header describes {end}")
        return bytes(length + text), entries

    def _malformed(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is not a valid safetensors file: {reason}")


def _entries(header: dict[str, Any], start: int) -> Iterator[tuple[str, Entry]]:
    for name, fields in header.items():
        if name == "__metadata__":
            continue
        begin, end = map(int, fields["data_offsets"])
        yield name, Entry(str(fields["dtype"]), tuple(map(int, fields["shape"])), start + begin, start + end)


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

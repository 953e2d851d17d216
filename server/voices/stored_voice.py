"""A stored voice and its safetensors file.

Tensors: ``embedding`` float32 [width] and, for in-context cloning, ``codes`` int16 [frames, 16]. All other fields are
metadata. Files with another ``format`` are rejected.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from engine.protocol.request import CODEBOOKS, Voice
from engine.system.regular_file import NotRegularFileError, open_regular
from server.voices.embeddings import MAX_WIDTH, embedding_fault
from server.voices.names import folded, voice_id

SUFFIX = ".safetensors"
Origin = Literal["audio_sample", "speaker_embedding", "blend"]
"""The kind of source that a voice was made from."""

_FORMAT = "sonant-voice-1"
_ORIGINS: dict[str, Origin] = {
    "audio_sample": "audio_sample",
    "speaker_embedding": "speaker_embedding",
    "blend": "blend",
}
MAX_TRANSCRIPT = 4096
"""Maximum characters of a transcript; a recording of 30 s has about 600. The engine tokenizes the transcript again for
each request, and other requests wait during that time."""
MAX_CONSENT = 256

_MAX_MODEL = 256
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of the file of a voice."""
_MAX_HEADER = 64 * 1024
"""Maximum header size in bytes: twice the longest texts, at six bytes per JSON-escaped character."""
_FIRST_READ = 16 * 1024
"""Size of the first read in bytes. It covers the header of nearly every voice."""
_MAX_TIME = 2**53
_KEY_ID_LENGTH = 16


class VoiceFileError(Exception):
    """The file is not a valid stored voice."""


@dataclass(frozen=True, slots=True)
class VoiceHeader:
    """The fields of a stored voice that lists show. See StoredVoice for their meaning."""

    name: str
    display_name: str
    origin: Origin
    created_at: int
    model: str
    width: int
    in_context: bool
    transcript: str | None
    consent: str | None
    maker: str | None
    shared: bool


@dataclass(frozen=True, slots=True, eq=False)
class StoredVoice:
    """A named voice.

    embedding: float32 [width].
    codes: codec codes of the recording, int16 [frames, 16]; None unless there is a transcript.
    transcript: what is said in the recording; None unless there are codes.
    created_at: Unix time in seconds. model: the checkpoint that the voice was made with.
    consent: the client's statement of consent, not interpreted.
    maker: the id of the API key that stored the voice, if any.
    shared: whether every key may use the voice. The folder of the file decides this, not its content.
    display_name: the name that people see; empty if it is ``name``.
    """

    name: str
    origin: Origin
    created_at: int
    model: str
    embedding: NDArray[np.float32]
    codes: NDArray[np.int16] | None = None
    transcript: str | None = None
    consent: str | None = None
    maker: str | None = None
    shared: bool = True
    display_name: str = ""

    @property
    def width(self) -> int:
        """Width of the embedding."""
        return len(self.embedding)

    @property
    def in_context(self) -> bool:
        """Whether the voice supports in-context cloning."""
        return self.codes is not None

    @property
    def header(self) -> VoiceHeader:
        """The fields that lists show."""
        return VoiceHeader(
            name=self.name,
            display_name=self.display_name,
            origin=self.origin,
            created_at=self.created_at,
            model=self.model,
            width=self.width,
            in_context=self.in_context,
            transcript=self.transcript,
            consent=self.consent,
            maker=self.maker,
            shared=self.shared,
        )

    def has_name(self, name: str) -> bool:
        """Return whether ``name`` is the voice's id or display name."""
        return folded(name) in (self.name, folded(self.display_name))

    def voice(self, *, in_context: bool) -> Voice:
        """Return the voice for the engine. ``in_context`` adds the recording's codes and transcript if available."""
        if self.codes is None or not in_context:
            return Voice(self.embedding)
        return Voice(self.embedding, self.codes.astype(np.int64), self.transcript)

    def to_bytes(self) -> bytes:
        """Return the content of the safetensors file."""
        tensors: dict[str, NDArray[np.generic]] = {"embedding": np.ascontiguousarray(self.embedding, np.float32)}
        if self.codes is not None:
            tensors["codes"] = np.ascontiguousarray(self.codes, np.int16)
        texts = {
            "format": _FORMAT,
            "name": self.display_name or self.name,
            "origin": self.origin,
            "created_at": str(self.created_at),
            "model": self.model,
            "width": str(self.width),
            "transcript": self.transcript,
            "consent": self.consent,
            "maker": self.maker,
        }
        return save(tensors, {key: text for key, text in texts.items() if text is not None})

    @staticmethod
    def from_bytes(data: bytes, name: str, *, shared: bool = True) -> StoredVoice:
        """Parse the result of ``to_bytes``. The voice is named ``name``, as is its file. Raises VoiceFileError."""
        fields = _header(data[:8], data[8 : 8 + _MAX_HEADER])
        texts = _texts(fields)
        try:
            tensors = load(data)
        except (SafetensorError, ValueError) as error:
            raise VoiceFileError(f"it is not a valid safetensors file: {error}") from None
        if "embedding" not in tensors:
            raise VoiceFileError("tensor 'embedding' is missing")
        embedding, codes = tensors["embedding"], tensors.get("codes")
        _check_tensors(embedding, codes)
        display = _display_name(fields, name)
        return StoredVoice(name=name, display_name=display, embedding=embedding, codes=codes, shared=shared, **texts)


def read_voice(path: Path, *, shared: bool = True) -> StoredVoice:
    """Read the voice in a file; the file's name is the voice's name.

    The file is opened once, so replacing it during the read does no harm.
    Raises VoiceFileError for an invalid file, and OSError when it does not exist.
    """
    with _opened(path) as (descriptor, _), os.fdopen(descriptor, "rb", closefd=False) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise VoiceFileError(f"it is larger than {MAX_BYTES} bytes")
    return StoredVoice.from_bytes(data, path.name.removesuffix(SUFFIX), shared=shared)


def read_header(path: Path, *, shared: bool = True) -> VoiceHeader:
    """Read and validate the header and the embedding of the voice in a file, but not the codes.

    Raises VoiceFileError for an invalid file, and OSError when it does not exist.
    """
    with _opened(path) as (descriptor, size):
        start = os.pread(descriptor, _FIRST_READ, 0)
        length = int.from_bytes(start[:8], "little")
        if 8 + length > len(start) and length <= _MAX_HEADER:
            start = os.pread(descriptor, 8 + length, 0)
        fields = _header(start[:8], start[8:])
        texts = _texts(fields)
        ends = [8 + length]
        width, at = _layout(fields, "embedding", "F32", 1, 4, ends)
        if not 1 <= width <= MAX_WIDTH:
            raise VoiceFileError(f"the embedding must have 1 to {MAX_WIDTH} numbers, got {width}")
        if "codes" in fields:
            _layout(fields, "codes", "I16", 2, 2 * CODEBOOKS, ends)
        if max(ends) != size:
            raise VoiceFileError(f"its tensors need {max(ends)} bytes, got a file of {size} bytes")
        numbers = os.pread(descriptor, 4 * width, at)
    if len(numbers) != 4 * width:
        raise VoiceFileError("it is truncated")
    _check_embedding(np.frombuffer(numbers, np.float32))
    name = path.name.removesuffix(SUFFIX)
    return VoiceHeader(
        name=name,
        display_name=_display_name(fields, name),
        width=width,
        in_context="codes" in fields,
        shared=shared,
        **texts,
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """Open a regular file; yield its descriptor and size. Raises VoiceFileError or OSError."""
    try:
        file = open_regular(path)
    except NotRegularFileError as error:
        raise VoiceFileError(str(error.strerror)) from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise VoiceFileError(f"it is larger than {MAX_BYTES} bytes")
        yield file.fileno(), size


def _header(prefix: bytes, data: bytes) -> dict[str, Any]:
    """Parse the JSON header of a safetensors file: tensors by name, and the metadata. Raises VoiceFileError."""
    length = int.from_bytes(prefix, "little")
    if not 0 < length <= _MAX_HEADER:
        raise VoiceFileError(f"its header must have 1 to {_MAX_HEADER} bytes, got {length}")
    if len(prefix) < 8 or len(data) < length:
        raise VoiceFileError("it is truncated")
    try:
        fields = json.loads(data[:length])
    except (ValueError, RecursionError):
        raise VoiceFileError("its header is not valid JSON") from None
    if not isinstance(fields, dict):
        raise VoiceFileError("its header is not a JSON object")
    return fields


def _texts(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata as keyword arguments for StoredVoice and VoiceHeader. Raises VoiceFileError."""
    texts = fields.get("__metadata__")
    if not isinstance(texts, dict) or texts.get("format") != _FORMAT:
        raise VoiceFileError(f"its metadata field 'format' is not '{_FORMAT}'")
    try:
        origin, created_at = _ORIGINS[texts["origin"]], int(texts["created_at"])
    except (KeyError, TypeError, ValueError):
        raise VoiceFileError("its metadata field 'origin' or 'created_at' is missing or invalid") from None
    if not 0 <= created_at < _MAX_TIME or "model" not in texts:
        raise VoiceFileError("its metadata field 'created_at' is out of range, or 'model' is missing")
    return {
        "origin": origin,
        "created_at": created_at,
        "model": _text(texts, "model", _MAX_MODEL) or "",
        "transcript": _text(texts, "transcript", MAX_TRANSCRIPT),
        "consent": _text(texts, "consent", MAX_CONSENT),
        "maker": _text(texts, "maker", _KEY_ID_LENGTH),
    }


def _display_name(fields: dict[str, Any], name: str) -> str:
    """Return the display name in the metadata, or "" if the file was renamed since it was written."""
    display = fields["__metadata__"].get("name")
    valid = isinstance(display, str) and display != name and voice_id(display) == name
    return display if valid else ""


def _text(texts: dict[str, Any], name: str, max_length: int) -> str | None:
    text = texts.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise VoiceFileError(f"its metadata field '{name}' is not a string")
    if len(text) > max_length:
        raise VoiceFileError(f"its {name} must have at most {max_length} characters, got {len(text)}")
    return text


def _layout(
    fields: dict[str, Any], name: str, dtype: str, dimensions: int, row_bytes: int, ends: list[int]
) -> tuple[int, int]:
    """Return the number of rows of a tensor and the offset of its bytes in the file.

    Appends the end offset to ``ends``, whose first item is the end of the header. Raises VoiceFileError.
    """
    try:
        tensor = fields[name]
        shape, (begin, end) = tensor["shape"], tensor["data_offsets"]
        rows = int(shape[0])
        valid = tensor["dtype"] == dtype and shape == [rows, CODEBOOKS][:dimensions]
        valid = valid and isinstance(begin, int) and begin >= 0 and end - begin == rows * row_bytes
    except (KeyError, TypeError, ValueError, IndexError):
        valid = False
    if not valid:
        raise VoiceFileError(f"tensor '{name}' is missing, or its dtype, shape or offsets are wrong")
    ends.append(ends[0] + end)
    return rows, ends[0] + begin


def _check_tensors(embedding: NDArray[np.generic], codes: NDArray[np.generic] | None) -> None:
    if embedding.dtype != np.float32 or embedding.ndim != 1 or not 1 <= embedding.size <= MAX_WIDTH:
        raise VoiceFileError(
            f"tensor 'embedding' must be float32 [width], got {embedding.dtype} {list(embedding.shape)}"
        )
    _check_embedding(embedding.astype(np.float32, copy=False))
    if codes is not None and (codes.dtype != np.int16 or codes.ndim != 2 or codes.shape[1] != CODEBOOKS):
        raise VoiceFileError(
            f"tensor 'codes' must be int16 [frames, {CODEBOOKS}], got {codes.dtype} {list(codes.shape)}"
        )


def _check_embedding(embedding: NDArray[np.float32]) -> None:
    if (fault := embedding_fault(embedding)) is not None:
        raise VoiceFileError(f"its embedding is not usable: {fault}")

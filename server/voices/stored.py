"""One stored voice, and the safetensors file it is.

Tensors: ``embedding`` float32 [width] and, for in-context cloning, ``codes`` int16 [frames, 16]. The rest is
metadata. No other program's file is read: ``format`` says whose it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from engine.regular_file import FileTooLargeError, NotRegularFileError, read_regular
from engine.request import CODEBOOKS, Voice

SUFFIX = ".safetensors"
Origin = Literal["audio_sample", "speaker_embedding", "blend"]
"""What a voice was made from."""

_FORMAT = "sonant-voice-1"
_ORIGINS: dict[str, Origin] = {
    "audio_sample": "audio_sample",
    "speaker_embedding": "speaker_embedding",
    "blend": "blend",
}
_MOST_BYTES = 4 * 1024 * 1024


class VoiceFileError(Exception):
    """A file is no stored voice."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredVoice:
    """A voice with a name.

    embedding: float32 [width]; codes: int16 [frames, 16] of the recording, with what is said in it, or both None.
    created_at: seconds since 1970; model: the checkpoint it was made with; consent: whatever the client gave as such.
    """

    name: str
    origin: Origin
    created_at: int
    model: str
    embedding: NDArray[np.float32]
    codes: NDArray[np.int16] | None = None
    transcript: str | None = None
    consent: str | None = None

    @property
    def width(self) -> int:
        """Numbers of the embedding."""
        return len(self.embedding)

    def voice(self, *, in_context: bool) -> Voice:
        """What the engine speaks with; ``in_context`` takes the recording's codes along, where there are any."""
        if self.codes is None or not in_context:
            return Voice(self.embedding)
        return Voice(self.embedding, self.codes.astype(np.int64), self.transcript)

    def to_bytes(self) -> bytes:
        """The whole file."""
        tensors: dict[str, NDArray[np.generic]] = {"embedding": np.ascontiguousarray(self.embedding, np.float32)}
        if self.codes is not None:
            tensors["codes"] = np.ascontiguousarray(self.codes, np.int16)
        texts = {
            "format": _FORMAT,
            "name": self.name,
            "origin": self.origin,
            "created_at": str(self.created_at),
            "model": self.model,
            "width": str(self.width),
            "transcript": self.transcript,
            "consent": self.consent,
        }
        return save(tensors, {key: text for key, text in texts.items() if text is not None})

    @staticmethod
    def from_bytes(data: bytes, name: str) -> StoredVoice:
        """The inverse of ``to_bytes``; ``name`` is the file's. Raises VoiceFileError."""
        try:
            tensors = load(data)
            texts = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
            if texts.get("format") != _FORMAT:
                raise VoiceFileError("another kind of file")
            embedding, codes = tensors["embedding"], tensors.get("codes")
            _check_tensors(embedding, codes)
            return StoredVoice(
                name=name,
                origin=_ORIGINS[texts["origin"]],
                created_at=int(texts["created_at"]),
                model=texts["model"],
                embedding=embedding,
                codes=codes,
                transcript=texts.get("transcript"),
                consent=texts.get("consent"),
            )
        except (SafetensorError, KeyError, ValueError) as error:
            raise VoiceFileError(f"not a whole voice: {error}") from None


def read_voice(path: Path) -> StoredVoice:
    """Return the voice in a file, named after the file. The file is read once, so replacing it meanwhile does no harm.

    Raises VoiceFileError, and OSError where there is none.
    """
    try:
        data = read_regular(path, _MOST_BYTES)
    except (NotRegularFileError, FileTooLargeError) as error:
        raise VoiceFileError(str(error.strerror)) from None
    return StoredVoice.from_bytes(data, path.name.removesuffix(SUFFIX))


def _check_tensors(embedding: NDArray[np.generic], codes: NDArray[np.generic] | None) -> None:
    if embedding.dtype != np.float32 or embedding.ndim != 1 or not embedding.size or not np.isfinite(embedding).all():
        raise VoiceFileError("its embedding is not a row of finite float32 numbers")
    if codes is not None and (codes.dtype != np.int16 or codes.ndim != 2 or codes.shape[1] != CODEBOOKS):
        raise VoiceFileError(f"its codes are not int16 frames of {CODEBOOKS}")

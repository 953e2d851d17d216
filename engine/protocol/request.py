"""What the engine is asked and what it answers. Free of torch: the HTTP process speaks these types."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
"""Samples a second of everything Code2Wav makes, and of what the reference encoders hear."""
SAMPLES_PER_FRAME = 1_920
"""Samples of one codec frame (80 ms; 12.5 frames a second)."""
CODEBOOKS = 16
"""Codes of one codec frame."""
MOST_CHUNK_FRAMES = 24
"""Frames of a stream that Code2Wav decodes at once: its rings hold as many, beside the window."""

_WIRE = np.dtype("<i2")

TextLayout = Literal["streaming", "full"]
"""Where the text stands in the prompt: one token beside each frame, or all of it before the first."""


class FinishReason(StrEnum):
    """Why an utterance ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How codes are drawn. None means the checkpoint's generation_config.json (SPEC 6)."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    subtalker_temperature: float | None = None
    subtalker_top_k: int | None = None
    subtalker_top_p: float | None = None
    max_new_tokens: int | None = None
    seed: int | None = None
    greedy: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    """A voice to clone.

    embedding: float32 [width], the speaker encoder's x-vector.
    codes: int64 [R, 16] of the reference recording, and its transcript, for in-context cloning;
    both None for cloning from the embedding alone.
    """

    embedding: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None
    transcript: str | None = None

    def to_fields(self) -> dict[str, Any]:
        """The voice as JSON values; float32 values survive exactly."""
        return {
            "embedding": self.embedding.astype(np.float32).tolist(),
            "codes": None if self.codes is None else self.codes.tolist(),
            "transcript": self.transcript,
        }

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> Voice:
        """The inverse of ``to_fields``."""
        codes = fields["codes"]
        return Voice(
            embedding=np.asarray(fields["embedding"], np.float32),
            codes=None if codes is None else np.asarray(codes, np.int64).reshape(-1, CODEBOOKS),
            transcript=fields["transcript"],
        )


@dataclass(frozen=True, slots=True, eq=False)
class SpeechRequest:
    """One utterance.

    speaker: a built-in speaker's name; voice: a voice to clone; neither for voice design.
    text_layout: None means the reference's default for the task.
    realtime: chunks follow a listener's playback; otherwise they are as large as pays.
    live: more text follows the first (``SpeechStream.append``); read while it is spoken, so never in context.
    """

    text: str
    speaker: str | None = None
    voice: Voice | None = None
    language: str = "auto"
    instructions: str | None = None
    text_layout: TextLayout | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    realtime: bool = True
    live: bool = False

    def to_bytes(self) -> bytes:
        """The request as it travels to the engine process."""
        fields = {each.name: getattr(self, each.name) for each in dataclass_fields(self)}
        fields["voice"] = None if self.voice is None else self.voice.to_fields()
        fields["sampling"] = {each.name: getattr(self.sampling, each.name) for each in dataclass_fields(self.sampling)}
        return json.dumps(fields).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> SpeechRequest:
        """The inverse of ``to_bytes``."""
        fields: dict[str, Any] = json.loads(payload)
        voice = fields.pop("voice")
        sampling = SamplingParams(**fields.pop("sampling"))
        return SpeechRequest(voice=None if voice is None else Voice.from_fields(voice), sampling=sampling, **fields)


@dataclass(frozen=True, slots=True, eq=False)
class AudioChunk:
    """Some frames of an utterance: int16 samples [n * 1920] at 24 kHz, and their int16 codes [n, 16]."""

    samples: NDArray[np.int16]
    codes: NDArray[np.int16]

    @staticmethod
    def all_to_bytes(samples: NDArray[np.int16], codes: NDArray[np.int16]) -> list[bytes]:
        """Chunks of several utterances, samples [u, n * 1920] and codes [u, n, 16], as they leave Code2Wav."""
        parts = zip(codes.astype(_WIRE, copy=False), samples.astype(_WIRE, copy=False), strict=True)
        return [b"".join(each) for each in parts]

    @staticmethod
    def from_bytes(payload: bytes, frames: int) -> AudioChunk:
        """One of ``all_to_bytes``, of ``frames`` frames."""
        both = np.frombuffer(payload, _WIRE)
        split = frames * CODEBOOKS
        return AudioChunk(both[split:], both[:split].reshape(frames, CODEBOOKS))


@dataclass(frozen=True, slots=True)
class Completion:
    """How an utterance ended: text tokens of the prompt read, codec frames made."""

    finish_reason: FinishReason
    input_tokens: int
    output_tokens: int

    def to_bytes(self) -> bytes:
        """The completion as it travels in an END record."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> Completion:
        """The inverse of ``to_bytes``."""
        fields: dict[str, Any] = json.loads(payload)
        return Completion(FinishReason(fields.pop("finish_reason")), **fields)


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the loaded checkpoint can do.

    tasks: of "CustomVoice", "VoiceDesign", "Base"; decided by what the folder contains.
    embedding_width: of speaker embeddings, None where none is accepted.
    in_context: whether reference codes can be made (and so in-context cloning works).
    trained: False for random weights, which make noise.
    """

    model: str
    tasks: tuple[str, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    embedding_width: int | None
    in_context: bool
    trained: bool
    context: int
    device: str

    def to_bytes(self) -> bytes:
        """The description as it travels when the engine is ready."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> EngineInfo:
        """The inverse of ``to_bytes``."""
        fields: dict[str, Any] = json.loads(payload)
        for name in ("tasks", "speakers", "languages"):
            fields[name] = tuple(fields[name])
        return EngineInfo(**fields)

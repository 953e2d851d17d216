"""Requests to the engine and its answers. Imports no torch, because the HTTP process uses these types too."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.protocol.speech_profile import SpeechProfile, TextLayout

SAMPLE_RATE = 24_000
"""Sample rate in Hz of Code2Wav's output and of the reference encoders' input."""
SAMPLES_PER_FRAME = 1_920
"""Samples per codec frame (80 ms; 12.5 frames per second)."""
FRAME_MS = 1000 * SAMPLES_PER_FRAME / SAMPLE_RATE
"""Milliseconds of audio per codec frame: 80."""
CODEBOOKS = 16
"""Codes per codec frame."""
MAX_CHUNK_FRAMES = 24
"""Maximum frames of a stream that Code2Wav decodes at once. Its ring buffers hold that many besides the window."""

_WIRE_DTYPE = np.dtype("<i2")

WeightFormat = Literal["exact", "int8", "int4"]
"""Format of the talker's weights: as in the checkpoint, or quantized to 8 or 4 bits."""


class FinishReason(StrEnum):
    """Why an utterance ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters of a request. None selects the value of the checkpoint's generation_config.json (SPEC 6).

    The names are those of the HTTP API; ``engine.talker.sampling_params`` has the ranges. subtalker_: for the
    residual codebooks, 1 to 15. max_new_tokens: N allows at most N - 1 frames. greedy: take the most likely code of
    every codebook.
    """

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
    codes, transcript: codes int64 [R, 16] of the reference recording, and its transcript, for in-context cloning.
    Both are None for cloning from the embedding alone.
    """

    embedding: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None
    transcript: str | None = None

    def to_fields(self) -> dict[str, Any]:
        """Return the voice as JSON values. The float32 values round-trip exactly."""
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

    speaker: the name of a built-in speaker. voice: a voice to clone. Both are None for voice design.
    text_layout: None selects the checkpoint's (``SpeechProfile.text_layout``), or else the reference implementation's
    default for the task.
    realtime: size the chunks for real-time playback; otherwise make them as large as possible.
    live: more text follows (``SpeechStream.append``). Not possible with in-context cloning, because the talker reads
    live text while it generates frames.
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
        """Serialize the request for the engine process."""
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
    """Consecutive frames of an utterance: int16 samples [n * 1920] at 24 kHz, and their int16 codes [n, 16]."""

    samples: NDArray[np.int16]
    codes: NDArray[np.int16]

    @staticmethod
    def all_to_bytes(samples: NDArray[np.int16], codes: NDArray[np.int16]) -> list[bytes]:
        """Serialize one chunk for each of u utterances, from samples [u, n * 1920] and codes [u, n, 16]."""
        parts = zip(codes.astype(_WIRE_DTYPE, copy=False), samples.astype(_WIRE_DTYPE, copy=False), strict=True)
        return [b"".join(each) for each in parts]

    @staticmethod
    def from_bytes(payload: bytes, frames: int) -> AudioChunk:
        """Parse one chunk of ``frames`` frames from ``all_to_bytes``."""
        both = np.frombuffer(payload, _WIRE_DTYPE)
        split = frames * CODEBOOKS
        return AudioChunk(both[split:], both[:split].reshape(frames, CODEBOOKS))


@dataclass(frozen=True, slots=True)
class Completion:
    """How an utterance ended.

    input_tokens: tokens of the caller's texts in the prompt. output_tokens: generated codec frames.
    """

    finish_reason: FinishReason
    input_tokens: int
    output_tokens: int

    def to_bytes(self) -> bytes:
        """Serialize the completion for an END record."""
        return json.dumps([self.finish_reason, self.input_tokens, self.output_tokens]).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> Completion:
        """The inverse of ``to_bytes``."""
        finish_reason, input_tokens, output_tokens = json.loads(payload)
        return Completion(FinishReason(finish_reason), input_tokens, output_tokens)


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the loaded checkpoint can do.

    tasks: a subset of "CustomVoice", "VoiceDesign" and "Base", depending on the content of the checkpoint.
    embedding_width: width of speaker embeddings, or None if the checkpoint accepts none.
    in_context: whether the checkpoint can encode reference codes, which in-context cloning needs.
    trained: False for random weights, which produce noise.
    context: positions per utterance, as configured.
    profile: what text and what recordings the checkpoint was trained for.
    weights: format of the talker's weights. real_time_factor: seconds that the engine is expected to take for a second
    of speech of one utterance. Both are None on a GPU.
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
    profile: SpeechProfile = field(default_factory=SpeechProfile)
    weights: WeightFormat | None = None
    real_time_factor: float | None = None

    @property
    def readable_languages(self) -> tuple[str, ...]:
        """Lower-case names of the languages that the checkpoint can read."""
        return self.profile.languages or tuple(name.lower() for name in self.languages)

    def to_bytes(self) -> bytes:
        """Serialize the description for the END record of the READY stream."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> EngineInfo:
        """The inverse of ``to_bytes``."""
        fields: dict[str, Any] = json.loads(payload)
        for name in ("tasks", "speakers", "languages"):
            fields[name] = tuple(fields[name])
        return EngineInfo(**fields | {"profile": SpeechProfile.from_fields(fields["profile"])})

"""An engine that speaks what a test says: good, silent, endless, truncated or repeating speech."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineFailed, RequestError
from engine.protocol.engine import OnEngine, ignore_engine
from engine.protocol.request import (
    CODEBOOKS,
    SAMPLES_PER_FRAME,
    AudioChunk,
    Completion,
    EngineInfo,
    FinishReason,
    SpeechRequest,
    Voice,
)
from engine.protocol.speech_profile import SpeechProfile

PACE = 18.7
CHUNK_FRAMES = 4


def info(**fields: object) -> EngineInfo:
    """A trained checkpoint with one voice that speaks ``PACE`` characters per second."""
    values: dict[str, object] = {
        "model": "scripted",
        "tasks": ("CustomVoice",),
        "speakers": ("ava",),
        "languages": ("English",),
        "embedding_width": None,
        "in_context": False,
        "trained": True,
        "context": 4096,
        "device": "cpu",
        "profile": SpeechProfile(characters_per_second=PACE),
    }
    return EngineInfo(**(values | fields))  # type: ignore[arg-type]


def good_frames(text: str) -> int:
    """The number of frames of good speech."""
    return max(3, round(len(text) / PACE * 12.5))


@dataclass(frozen=True)
class Take:
    """What an attempt delivers.

    level: of the samples. period: cycle of the codes; None for codes without one. stalls_after: the number of chunks
    after which nothing more arrives; None if all arrive. lost_after: the number after which the engine is lost.
    """

    frames: int
    level: int = 3000
    period: int | None = None
    reason: FinishReason = FinishReason.STOP
    stalls_after: int | None = None
    lost_after: int | None = None

    def chunks(self, seed: int) -> list[AudioChunk]:
        """The chunks. Their samples and codes follow from ``seed``."""
        time = np.arange(self.frames * SAMPLES_PER_FRAME)
        samples = (self.level * np.sin(time / (15 + seed % 10))).astype(np.int16)
        codes = np.zeros((self.frames, CODEBOOKS), np.int16)
        codes[:, 0] = np.arange(self.frames) % (self.period or 10_000)
        return [
            AudioChunk(
                samples[start * SAMPLES_PER_FRAME : (start + CHUNK_FRAMES) * SAMPLES_PER_FRAME],
                codes[start : start + CHUNK_FRAMES],
            )
            for start in range(0, self.frames, CHUNK_FRAMES)
        ]


def good(text: str) -> Take:
    """Good speech."""
    return Take(good_frames(text))


def silent(text: str) -> Take:
    """Two frames of silence, as after a clone's bad transcript."""
    return Take(2, level=1)


def endless(text: str) -> Take:
    """Speech that does not end before the limit of 500 frames."""
    return Take(500, reason=FinishReason.LENGTH)


def truncated(text: str) -> Take:
    """A fifth of the text."""
    return Take(good_frames(text) // 5)


def repeating(text: str) -> Take:
    """A cycle of three codes."""
    return Take(500, period=3)


Script = Callable[[str], Take]


@dataclass
class ScriptedStream:
    """An EngineStream over the chunks of a take. A live one speaks when its text is complete."""

    request: SpeechRequest
    take: Take
    consumed: int = 0
    cancelled: bool = False
    appended: str = ""
    _chunks: list[AudioChunk] = field(init=False)
    _complete: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._chunks = self.take.chunks(self.request.sampling.seed or 0)

    @property
    def completion(self) -> Completion:
        return Completion(FinishReason.CANCELLED if self.cancelled else self.take.reason, 5, self.take.frames)

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> AudioChunk:
        if self.request.live:
            await self._complete.wait()
        if self.cancelled or self.consumed == len(self._chunks):
            raise StopAsyncIteration
        if self.consumed == self.take.lost_after:
            raise EngineFailed("the engine process ended unexpectedly", code="engine_lost")
        if self.consumed == self.take.stalls_after:
            await asyncio.Event().wait()
        self.consumed += 1
        return self._chunks[self.consumed - 1]

    def append(self, piece: str, *, last: bool = False) -> None:
        self.appended += piece
        if last:
            self._complete.set()

    def cancel(self) -> None:
        self.cancelled = self.cancelled or self.consumed < len(self._chunks)


class ScriptedEngine:
    """An Engine. scripts: what each attempt delivers, in the order of submission; good speech afterwards."""

    def __init__(self, scripts: Sequence[Script] = (), description: EngineInfo | None = None) -> None:
        self.info = description or info()
        self.streams: list[ScriptedStream] = []
        self.announced = 0
        self.scripts = list(scripts)

    @property
    def engines(self) -> Mapping[str, ScriptedEngine]:
        return {"0": self}

    @property
    def loaded(self) -> bool:
        return True

    @property
    def restarts(self) -> Mapping[str, int]:
        return {}

    @property
    def last_stats(self) -> dict[str, int] | None:
        return None

    async def start(self) -> None:
        pass

    async def wait_ready(self, timeout: float | None = None) -> EngineInfo:
        return self.info

    async def close(self) -> None:
        pass

    def check_health(self) -> None:
        pass

    def check_accepting(self) -> None:
        pass

    async def stats(self, timeout: float) -> dict[str, int]:
        raise TimeoutError

    def announce(self) -> None:
        self.announced += 1

    def submit(self, request: SpeechRequest, *, on_engine: OnEngine = ignore_engine) -> ScriptedStream:
        on_engine("0", False)
        self.check(request)
        script = self.scripts.pop(0) if self.scripts else good
        self.streams.append(ScriptedStream(request, script(request.text)))
        return self.streams[-1]

    def check(self, request: SpeechRequest) -> None:
        """Raise RequestError if the checkpoint does not speak the language."""
        if request.language.lower() not in ("auto", *(name.lower() for name in self.info.languages)):
            names = ", ".join(("auto", *self.info.languages))
            raise RequestError(f"language must be one of {names}, got {request.language!r}", param="language")

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        raise RequestError("the scripted checkpoint cannot clone voices")

    async def speaker_voice(self, speaker: str) -> Voice:
        """An embedding that points along an axis of its own for each speaker. It needs an ``embedding_width``."""
        assert self.info.embedding_width is not None
        embedding = np.zeros(self.info.embedding_width, np.float32)
        embedding[self.info.speakers.index(speaker)] = 1
        return Voice(embedding)

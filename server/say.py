"""One utterance without a server, by the same engine: what ``sonant say`` does."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from engine.client import EngineClient
from engine.request import CODEBOOKS, SAMPLE_RATE, AudioChunk, EngineInfo, SpeechRequest
from server.audio.samples import to_pcm16
from server.schemas import parse_speech
from server.settings import Limits, Settings
from server.startup import START_SECONDS
from server.tasks import speech_request

_OWN_LIMITS = Limits(
    max_input_chars=10**6,
    max_instructions_chars=10**6,
    reference_min_seconds=0.0,
    reference_max_seconds=3600.0,
    reference_max_bytes=2**30,
)
"""One's own files and texts on one's own machine need none of the wire's bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """An utterance: what was asked, float32 samples [T * 1920] and their codes int64 [T, 16]."""

    request: SpeechRequest
    samples: NDArray[np.float32]
    codes: NDArray[np.int64]

    def write_wav(self, path: Path) -> None:
        """16-bit mono WAV at 24 kHz."""
        pcm = np.frombuffer(to_pcm16(self.samples), "<i2")
        sf.write(path, pcm, SAMPLE_RATE, format="WAV", subtype="PCM_16")

    def write_dump(self, path: Path) -> None:
        """Codes and samples, and of a clone its embedding and, if in context, its reference codes."""
        arrays: dict[str, NDArray[Any]] = {"codes": self.codes, "wav": self.samples}
        if self.request.voice is not None:
            arrays["spk_embedding"] = self.request.voice.embedding
            if self.request.voice.codes is not None:
                arrays["ref_codes"] = self.request.voice.codes
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


async def say(
    settings: Settings,
    fields: dict[str, Any],
    *,
    greedy: bool,
    on_ready: Callable[[EngineInfo], None],
    on_frames: Callable[[int], None],
) -> Spoken:
    """Speak ``fields`` (those of a speech request that are not None) with an engine of this process.

    ``on_ready`` hears of the loaded checkpoint, ``on_frames`` the frames made so far.
    Raises ApiError or EngineError.
    """
    settings = settings.model_copy(update={"limits": _OWN_LIMITS})
    given = {name: value for name, value in fields.items() if value is not None}
    body = parse_speech({**given, "response_format": "wav", "stream": False}, settings.limits)
    engine = EngineClient(settings.engine)
    await engine.start()
    try:
        await engine.wait_ready(START_SECONDS)
        on_ready(engine.info)
        asked = await speech_request(body, engine, settings)
        asked = replace(asked, sampling=replace(asked.sampling, greedy=asked.sampling.greedy or greedy))
        return await _collect(engine, asked, on_frames)
    finally:
        await engine.close()


async def _collect(engine: EngineClient, asked: SpeechRequest, on_frames: Callable[[int], None]) -> Spoken:
    chunks: list[AudioChunk] = []
    frames = 0
    stream = engine.submit(asked)
    try:
        async for chunk in stream:
            chunks.append(chunk)
            frames += len(chunk.codes)
            on_frames(frames)
    finally:
        stream.cancel()
    samples = np.concatenate([np.zeros(0, np.float32), *(chunk.samples for chunk in chunks)])
    codes = np.concatenate([np.zeros((0, CODEBOOKS), np.int16), *(chunk.codes for chunk in chunks)])
    return Spoken(asked, samples, codes.astype(np.int64))


def recording_url(path: Path) -> str:
    """A recording on this machine as a request carries it. Raises OSError."""
    return "data:;base64," + base64.b64encode(path.read_bytes()).decode()

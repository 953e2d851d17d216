"""Offline synthesis for ``sonant say``: one utterance, with the same engine but without a server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.client.client import EngineClient
from engine.protocol.engine import AudioStream
from engine.protocol.request import CODEBOOKS, AudioChunk, EngineInfo, SpeechRequest
from engine.protocol.samples import to_float32
from server.alignment.worker import aligner_threads
from server.audio.encoders import FORMATS
from server.audio.onset import Onset
from server.audio.pipeline import Chain
from server.guards.guard import guarded
from server.guards.words import WordCheck
from server.limits import Limits
from server.long_text.segments import Turn
from server.references.validation import invalid_recording
from server.request_models.speech import SpeechBody, parse_speech
from server.served_model import served_model
from server.settings import Settings
from server.startup import START_SECONDS
from server.synthesis.admission import Admission
from server.synthesis.engine_request import submit
from server.synthesis.turns import onset_of, turns_of
from server.telemetry.record import RequestRecord
from server.voices.storage_threads import StorageThreads

_ID = "say"
"""The request id in the log."""
_OWN_LIMITS = Limits(
    max_input_chars=10**6,
    max_instructions_chars=10**6,
    reference_min_seconds=0.0,
    reference_max_seconds=3600.0,
    reference_max_bytes=2**30,
)
"""Limits for the user's own files and texts on the user's own machine, which need no protection from them."""


@dataclass(frozen=True, slots=True, eq=False)
class OfflineSpeech:
    """A synthesized utterance.

    body: the API request. request: the engine request, of the first turn if there are several. codes: int64 [T, 16].
    samples: int16 [T * 1920], or another number if the utterance consists of pieces, whose pauses are adjusted.
    onset: how the audio file begins.
    """

    body: SpeechBody
    request: SpeechRequest
    onset: Onset
    samples: NDArray[np.int16]
    codes: NDArray[np.int64]

    def write_audio(self, path: Path) -> None:
        """Write the audio file with the requested format, speed and sample rate."""
        output = FORMATS[self.body.response_format]
        chain = Chain(output, speed=self.body.speed, rate=self.body.sample_rate, streaming=False)
        try:
            path.write_bytes(chain.encode(self.onset.cut(self.samples)) + chain.finish())
        finally:
            chain.close()

    def write_dump(self, path: Path) -> None:
        """Write codes and samples as .npz; for clones also the embedding and, if in context, the reference codes."""
        arrays: dict[str, NDArray[Any]] = {"codes": self.codes, "wav": to_float32(self.samples)}
        if self.request.voice is not None:
            arrays["spk_embedding"] = self.request.voice.embedding
            if self.request.voice.codes is not None:
                arrays["ref_codes"] = self.request.voice.codes
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


async def synthesize(
    settings: Settings,
    fields: dict[str, Any],
    *,
    greedy: bool,
    on_ready: Callable[[EngineInfo], None],
    on_frames: Callable[[int], None],
) -> OfflineSpeech:
    """Synthesize one utterance with an engine that is started for it. Raises ApiError or EngineError.

    Args:
        settings: the server's settings; their limits are replaced.
        fields: fields of a speech request; those that are None are ignored.
        greedy: use greedy sampling; overrides ``fields``.
        on_ready: called once when the checkpoint is loaded.
        on_frames: called with the number of frames so far.
    """
    settings = settings.model_copy(update={"limits": _OWN_LIMITS})
    present = {name: value for name, value in fields.items() if value is not None}
    body = parse_speech({**present, "stream": False}, settings.limits)
    served = settings.all_models[0]
    engine, storage_threads, word_threads = EngineClient(served.engine), StorageThreads(), aligner_threads()
    model = served_model(settings, served, engine, _decode_own_file, Admission(1, 0), storage_threads)
    await engine.start()
    try:
        await engine.wait_ready(START_SECONDS)
        on_ready(engine.info)
        turns, _ = await turns_of(body, model)
        turns = [_with_greedy(turn, greedy) for turn in turns]
        submit_one = guarded(engine, settings.guards, RequestRecord(_ID), WordCheck(word_threads))
        samples, codes = await _collect(submit(turns, body, engine.info, submit_one), on_frames)
        return OfflineSpeech(body, turns[0].request, onset_of(turns[0], settings), samples, codes)
    finally:
        storage_threads.close()
        word_threads.shutdown()
        await engine.close()


def _with_greedy(turn: Turn, greedy: bool) -> Turn:
    sampling = replace(turn.request.sampling, greedy=turn.request.sampling.greedy or greedy)
    return replace(turn, request=replace(turn.request, sampling=sampling))


async def _decode_own_file(data: bytes) -> NDArray[np.float32]:
    """Decode in this process. The file is trusted, and may need more memory and time than a decoder worker allows.

    libsndfile is imported here, because the HTTP process imports this module but must not load libsndfile.
    """
    from server.references.decoders import decode_samples

    try:
        return await asyncio.to_thread(decode_samples, data, _OWN_LIMITS)
    except MemoryError:
        raise invalid_recording(
            "decoding it needs more memory than this machine has", "reference_too_complex"
        ) from None


async def _collect(
    stream: AudioStream, on_frames: Callable[[int], None]
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    chunks: list[AudioChunk] = []
    frames = 0
    try:
        async for chunk in stream:
            chunks.append(chunk)
            frames += len(chunk.codes)
            on_frames(frames)
    finally:
        stream.cancel()
    samples = np.concatenate([np.zeros(0, np.int16), *(chunk.samples for chunk in chunks)])
    codes = np.concatenate([np.zeros((0, CODEBOOKS), np.int16), *(chunk.codes for chunk in chunks)])
    return samples, codes.astype(np.int64)


def recording_url(path: Path) -> str:
    """Return a local recording as a ``data:`` URL for a request. Raises OSError."""
    return "data:;base64," + base64.b64encode(path.read_bytes()).decode()

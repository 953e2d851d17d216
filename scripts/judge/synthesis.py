"""Synthesizes utterances into files. Existing files are not synthesized again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.client.client import EngineClient
from engine.cloning.resampling import resample
from engine.config import EngineConfig
from engine.protocol.request import SAMPLE_RATE, FinishReason, SamplingParams, SpeechRequest, Voice
from scripts.judge.clips import Clip
from scripts.judge.expected import max_frames
from scripts.judge.sound import read
from server.alignment.worker import aligner_threads
from server.api_error import ApiError
from server.audio.onset import AFTER_REFERENCE
from server.guards.guard import Guard
from server.guards.words import WordCheck
from server.references.prepare import prepare
from server.references.transcript import Transcript
from server.telemetry.record import RequestRecord

Device = Literal["cpu", "cuda"]

_CONCURRENCY = 8
_REPORT_INTERVAL = 50


@dataclass(frozen=True)
class ExamUtterance:
    """An utterance to synthesize, with the checkpoint's default sampling.

    speaker: a built-in voice. reference: a recording to clone instead. in_context: whether to use its transcript.
    """

    text: str
    seed: int
    speaker: str | None = None
    reference: Clip | None = None
    in_context: bool = False

    @property
    def name(self) -> str:
        """A unique and reproducible file name."""
        digest = hashlib.sha256(json.dumps([self.text, self.seed, self.speaker, self.in_context]).encode())
        if self.reference is not None:
            digest.update(self.reference.file.read_bytes())
        return digest.hexdigest()[:20]


@dataclass(frozen=True)
class SpokenUtterance:
    """A synthesized utterance. stopped: whether it ended by itself. edges: sample indices where later chunks begin."""

    utterance: ExamUtterance
    wav: Path
    stopped: bool
    edges: tuple[int, ...]


def synthesize(
    checkpoint: Path, utterances: Sequence[ExamUtterance], out: Path, device: Device = "cpu", *, guards: bool = False
) -> list[SpokenUtterance]:
    """Synthesize the utterances that are not in ``out`` yet. Raises EngineError when the checkpoint cannot.

    guards: make faulty speech again, and trim the beginning of a clone in context, as the server does.
    """
    out.mkdir(parents=True, exist_ok=True)
    missing = [utterance for utterance in utterances if not _metadata_file(out, utterance).exists()]
    if missing:
        config = EngineConfig(model=str(checkpoint), device=device)
        asyncio.run(_synthesize_all(config, missing, out, guards=guards))
    return [_read_spoken(out, utterance) for utterance in utterances]


async def _synthesize_all(config: EngineConfig, utterances: list[ExamUtterance], out: Path, *, guards: bool) -> None:
    engine, word_threads = EngineClient(config), aligner_threads()
    word_check = WordCheck(word_threads) if guards else None
    await engine.start()
    try:
        await engine.wait_ready()
        remaining = iter(enumerate(utterances, start=1))

        async def work() -> None:
            for number, utterance in remaining:
                await _synthesize_one(engine, utterance, out, word_check=word_check)
                if number % _REPORT_INTERVAL == 0:
                    print(f"synthesized {number} of {len(utterances)}", file=sys.stderr, flush=True)

        async with asyncio.TaskGroup() as group:
            for _ in range(_CONCURRENCY):
                group.create_task(work())
    finally:
        word_threads.shutdown()
        await engine.close()


async def _synthesize_one(
    engine: EngineClient, utterance: ExamUtterance, out: Path, *, word_check: WordCheck | None
) -> None:
    """Synthesize an utterance. word_check: of the guards; None for no guards."""
    request = SpeechRequest(
        text=utterance.text,
        speaker=utterance.speaker,
        voice=await _voice(engine, utterance),
        sampling=SamplingParams(seed=utterance.seed, max_new_tokens=max_frames(utterance.text)),
        realtime=False,
    )
    submit = engine.submit if word_check is None else Guard(engine, RequestRecord(utterance.name), word_check).submit
    stream = submit(request)
    chunks: list[NDArray[np.int16]] = []
    stopped = False
    try:
        chunks = [chunk.samples async for chunk in stream]
        stopped = stream.completion.finish_reason is FinishReason.STOP
    except ApiError as error:
        print(f"{utterance.text!r}: {error.message}", file=sys.stderr)
    made = np.concatenate(chunks) if chunks else np.zeros(SAMPLE_RATE // 10, np.int16)
    samples = AFTER_REFERENCE.cut(made) if word_check is not None and utterance.in_context else made
    soundfile.write(_wav(out, utterance), samples, SAMPLE_RATE)
    removed = len(made) - len(samples)
    edges = [edge - removed for edge in accumulate(map(len, chunks[:-1])) if edge > removed]
    _metadata_file(out, utterance).write_text(json.dumps({"stopped": stopped, "edges": edges, "text": utterance.text}))


async def _voice(engine: EngineClient, utterance: ExamUtterance) -> Voice | None:
    """Return the voice to clone, from the reference as the server prepares it: trimmed, and cut if it is too long."""
    if utterance.reference is None:
        return None
    samples, rate = read(utterance.reference.file)
    transcript = Transcript(utterance.reference.text) if utterance.in_context else None
    prepared = prepare(
        resample(samples, rate, SAMPLE_RATE), transcript, engine.info.profile.reference_seconds, "x_vector"
    )
    return await engine.encode_reference(
        prepared.samples, SAMPLE_RATE, codes=prepared.transcript is not None, transcript=prepared.transcript
    )


def _read_spoken(out: Path, utterance: ExamUtterance) -> SpokenUtterance:
    metadata = json.loads(_metadata_file(out, utterance).read_text())
    return SpokenUtterance(utterance, _wav(out, utterance), metadata["stopped"], tuple(metadata["edges"]))


def _wav(out: Path, utterance: ExamUtterance) -> Path:
    return out / f"{utterance.name}.wav"


def _metadata_file(out: Path, utterance: ExamUtterance) -> Path:
    """Return the metadata file. It is written after the recording, so it marks a complete recording."""
    return out / f"{utterance.name}.json"

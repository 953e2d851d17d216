"""Utterances spoken by the engine into files; what was spoken before is not spoken again."""

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

from engine.client.client import EngineClient
from engine.config import EngineConfig
from engine.protocol.request import SAMPLE_RATE, FinishReason, SamplingParams, SpeechRequest, Voice
from scripts.judge.clips import Clip
from scripts.judge.expected import most_frames
from scripts.judge.sound import read

Device = Literal["cpu", "cuda"]

_AT_ONCE = 8
_REPORT_EVERY = 50


@dataclass(frozen=True)
class Utterance:
    """What is to be spoken, with the checkpoint's own sampling.

    speaker: a built-in voice; or reference: a recording to clone, with its transcript where ``in_context``.
    """

    text: str
    seed: int
    speaker: str | None = None
    reference: Clip | None = None
    in_context: bool = False

    @property
    def name(self) -> str:
        """The same for the same utterance, another for every other."""
        digest = hashlib.sha256(json.dumps([self.text, self.seed, self.speaker, self.in_context]).encode())
        if self.reference is not None:
            digest.update(self.reference.file.read_bytes())
        return digest.hexdigest()[:20]


@dataclass(frozen=True)
class Spoken:
    """An utterance in its file. stopped: whether it ended by itself; edges: samples at which its later chunks began."""

    utterance: Utterance
    wav: Path
    stopped: bool
    edges: tuple[int, ...]


def speak(checkpoint: Path, utterances: Sequence[Utterance], out: Path, device: Device = "cpu") -> list[Spoken]:
    """Speak what is not yet in ``out``. Raises EngineError where the checkpoint cannot."""
    out.mkdir(parents=True, exist_ok=True)
    missing = [utterance for utterance in utterances if not _note(out, utterance).exists()]
    if missing:
        asyncio.run(_speak_all(EngineConfig(model=str(checkpoint), device=device), missing, out))
    return [_spoken(out, utterance) for utterance in utterances]


async def _speak_all(config: EngineConfig, utterances: list[Utterance], out: Path) -> None:
    engine = EngineClient(config)
    await engine.start()
    try:
        await engine.wait_ready()
        waiting = iter(enumerate(utterances, start=1))

        async def work() -> None:
            for number, utterance in waiting:
                await _speak_one(engine, utterance, out)
                if number % _REPORT_EVERY == 0:
                    print(f"spoken {number} of {len(utterances)}", file=sys.stderr, flush=True)

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(work())
    finally:
        await engine.close()


async def _speak_one(engine: EngineClient, utterance: Utterance, out: Path) -> None:
    request = SpeechRequest(
        text=utterance.text,
        speaker=utterance.speaker,
        voice=await _voice(engine, utterance),
        sampling=SamplingParams(seed=utterance.seed, max_new_tokens=most_frames(utterance.text)),
        realtime=False,
    )
    stream = engine.submit(request)
    chunks = [chunk.samples async for chunk in stream]
    samples = np.concatenate(chunks) if chunks else np.zeros(SAMPLE_RATE // 10, np.int16)
    soundfile.write(_wav(out, utterance), samples, SAMPLE_RATE)
    stopped = stream.completion.finish_reason is FinishReason.STOP
    edges = list(accumulate(len(chunk) for chunk in chunks))[:-1]
    _note(out, utterance).write_text(json.dumps({"stopped": stopped, "edges": edges, "text": utterance.text}))


async def _voice(engine: EngineClient, utterance: Utterance) -> Voice | None:
    if utterance.reference is None:
        return None
    samples, rate = read(utterance.reference.file)
    transcript = utterance.reference.text if utterance.in_context else None
    return await engine.encode_reference(samples, rate, codes=utterance.in_context, transcript=transcript)


def _spoken(out: Path, utterance: Utterance) -> Spoken:
    note = json.loads(_note(out, utterance).read_text())
    return Spoken(utterance, _wav(out, utterance), note["stopped"], tuple(note["edges"]))


def _wav(out: Path, utterance: Utterance) -> Path:
    return out / f"{utterance.name}.wav"


def _note(out: Path, utterance: Utterance) -> Path:
    """Written after the recording: where it is, the recording is whole."""
    return out / f"{utterance.name}.json"

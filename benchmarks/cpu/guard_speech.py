"""Synthesizes the utterances of ``benchmarks.cpu.guards`` into files, and keeps existing files."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.cpu.guard_material import Case, cases
from engine.client.client import EngineClient
from engine.config import EngineConfig
from engine.protocol.request import AudioChunk, FinishReason, SamplingParams, SpeechRequest, Voice
from scripts.judge.sound import read
from server.alignment.worker import aligner_threads
from server.errors import ApiError
from server.guards.guard import Guard
from server.guards.words import WordCheck
from server.telemetry.record import RequestRecord

_CONCURRENCY = 3
_CHUNK_FRAMES = 6


@dataclass(frozen=True, eq=False)
class Spoken:
    """A synthesized case. samples: int16 [frames * 1920]. codes: int16 [frames, 16]."""

    case: Case
    samples: NDArray[np.int16]
    codes: NDArray[np.int16]
    finish_reason: FinishReason

    def chunks(self) -> Iterator[AudioChunk]:
        """Yield the audio as a stream delivers it."""
        for start in range(0, len(self.codes), _CHUNK_FRAMES):
            end = min(len(self.codes), start + _CHUNK_FRAMES)
            yield AudioChunk(self.samples[start * 1920 : end * 1920], self.codes[start:end])


async def synthesize(model: Path, folder: Path, limit: int | None) -> list[Spoken]:
    """Return the first ``limit`` cases, synthesized by the checkpoint ``model`` unless they are in ``folder``."""
    engine = EngineClient(EngineConfig(model=str(model)))
    await engine.start()
    try:
        info = await engine.wait_ready()
        chosen = list(islice(cases(info.speakers), limit))
        missing = iter([case for case in chosen if not _file(folder, case).exists()])

        async def work() -> None:
            for case in missing:
                await _synthesize(engine, case, _file(folder, case))

        async with asyncio.TaskGroup() as group:
            for _ in range(_CONCURRENCY):
                group.create_task(work())
    finally:
        await engine.close()
    return [_read(folder, case) for case in chosen]


async def make_again(model: Path, found: Sequence[Spoken]) -> list[tuple[Spoken, RequestRecord, Spoken | None]]:
    """Synthesize cases with a guard, not in real time. Return each with its record and what was sent, if anything."""
    engine, word_threads = EngineClient(EngineConfig(model=str(model))), aligner_threads()
    word_check = WordCheck(word_threads)
    await engine.start()
    results: list[tuple[Spoken, RequestRecord, Spoken | None]] = []
    try:
        await engine.wait_ready()
        for spoken in found:
            record, sent = RequestRecord(spoken.case.kind), None
            stream = Guard(engine, record, word_check).submit(await _request(engine, spoken.case))
            try:
                chunks = [chunk async for chunk in stream]
            except ApiError:
                pass
            else:
                samples = np.concatenate([chunk.samples for chunk in chunks])
                codes = np.concatenate([chunk.codes for chunk in chunks])
                sent = Spoken(spoken.case, samples, codes, stream.completion.finish_reason)
            results.append((spoken, record, sent))
    finally:
        word_threads.shutdown()
        await engine.close()
    return results


async def _request(engine: EngineClient, case: Case) -> SpeechRequest:
    sampling = SamplingParams(
        seed=case.seed,
        temperature=case.temperature,
        subtalker_temperature=case.temperature,
        max_new_tokens=None if case.max_frames is None else case.max_frames + 1,
    )
    return SpeechRequest(
        case.text, speaker=case.speaker, voice=await _voice(engine, case), sampling=sampling, realtime=False
    )


async def _synthesize(engine: EngineClient, case: Case, file: Path) -> None:
    stream = engine.submit(await _request(engine, case))
    chunks = [chunk async for chunk in stream]
    with file.with_suffix(".part").open("wb") as part:
        np.savez(
            part,
            samples=np.concatenate([np.zeros(0, np.int16), *(chunk.samples for chunk in chunks)]),
            codes=np.concatenate([np.zeros((0, 16), np.int16), *(chunk.codes for chunk in chunks)]),
            finish_reason=np.array(stream.completion.finish_reason.value),
        )
    file.with_suffix(".part").rename(file)
    print(f"{case.kind}: {1.92 * sum(len(chunk.codes) for chunk in chunks) / 24:.1f} s", file=sys.stderr, flush=True)


async def _voice(engine: EngineClient, case: Case) -> Voice | None:
    if case.reference is None:
        return None
    samples, rate = read(case.reference.file)
    in_context = case.transcript is not None
    return await engine.encode_reference(samples, rate, codes=in_context, transcript=case.transcript)


def _file(folder: Path, case: Case) -> Path:
    reference = None if case.reference is None else case.reference.file.name
    fields = (case.text, case.seed, case.speaker, reference, case.transcript, case.temperature, case.max_frames)
    return folder / f"{hashlib.sha256(repr(fields).encode()).hexdigest()[:20]}.npz"


def _read(folder: Path, case: Case) -> Spoken:
    with np.load(_file(folder, case)) as arrays:
        return Spoken(case, arrays["samples"], arrays["codes"], FinishReason(str(arrays["finish_reason"])))

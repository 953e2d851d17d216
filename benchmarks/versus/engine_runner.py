"""Runs this engine in a comparison: ``python -m benchmarks.versus.engine_runner JOB``, in this venv."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from benchmarks.versus.turns import Job, Load, Turn, serve
from engine.checkpoint.folder import open_checkpoint
from engine.client.client import EngineClient
from engine.code2wav.loading import load_decoder
from engine.config import EngineConfig, TalkerConfig
from engine.device.selection import prepare_torch
from engine.prompt.builder import build_prompt
from engine.protocol.request import CODEBOOKS, SamplingParams, SpeechRequest
from engine.talker.loading import load_native_talker
from engine.talker.requests import resolve

CHUNKS = (1, 13)
"""Chunk sizes, in frames, that Code2Wav is timed with."""
CHUNK_REPEATS = 3
_CONTEXT_FRAMES = 26
_WARM_UP_FRAMES = 2
_TIMEOUT_S = 600.0


def request_of(job: Job, frames: int) -> SpeechRequest:
    """Return the job's utterance, limited to ``frames`` frames. One more token is sampled, as in the reference."""
    sampling = SamplingParams(greedy=True, max_new_tokens=frames + 1)
    return SpeechRequest(job.text, speaker=job.speaker, language=job.language, sampling=sampling)


def config_of(job: Job) -> EngineConfig:
    """Return the default configuration on a CPU, with the job's number of threads and weight format."""
    return EngineConfig(
        model=job.folder,
        device="cpu",
        threads=job.threads,
        talker=TalkerConfig.model_validate({"weights": job.weights}),
    )


@contextmanager
def talker(job: Job) -> Iterator[Callable[[], Turn]]:
    """Time the talker alone, in this process: from the prompt to the last codes."""
    config = config_of(job)
    prepare_torch(config)
    checkpoint = open_checkpoint(job.folder)
    native = load_native_talker(checkpoint, config, torch.device("cpu"))

    def speak(frames: int) -> Turn:
        request = request_of(job, frames)
        codes = []
        started = time.perf_counter()
        prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
        native.admit(0, prompt, resolve(request.sampling, checkpoint.generation))
        while native.runnable(()):
            codes += native.step(()).codes.tolist()
        elapsed = time.perf_counter() - started
        return Turn({"frame": [elapsed / max(1, len(codes))]}, codes)

    speak(_WARM_UP_FRAMES)
    yield lambda: speak(job.frames)


@contextmanager
def engine(job: Job) -> Iterator[Callable[[], Turn]]:
    """Time both stages in the engine process, through its client: until the first and until the last samples."""

    async def speak(frames: int) -> Turn:
        codes = []
        first = 0.0
        started = time.perf_counter()
        async with asyncio.timeout(_TIMEOUT_S):
            async for chunk in client.submit(request_of(job, frames)):
                first = first or time.perf_counter() - started
                codes += chunk.codes.tolist()
        return Turn({"first audio": [first], "whole": [time.perf_counter() - started]}, codes)

    async def start() -> None:
        await client.start()
        await client.wait_ready(_TIMEOUT_S)
        await speak(_WARM_UP_FRAMES)

    client = EngineClient(config_of(job))
    with asyncio.Runner() as loop:
        try:
            loop.run(start())
            yield lambda: loop.run(speak(job.frames))
        finally:
            loop.run(client.close())


@contextmanager
def code2wav(job: Job) -> Iterator[Callable[[], Turn]]:
    """Time Code2Wav alone, in this process: consecutive chunks of one stream."""
    decoder = load_decoder(config_of(job))
    row = decoder.begin(None)
    random = np.random.default_rng(0)

    def seconds_per_frame(frames: int) -> float:
        codes = random.integers(0, 2048, (1, frames, CODEBOOKS)).astype(np.int16)
        started = time.perf_counter()
        decoder.decode([row], codes)
        return (time.perf_counter() - started) / frames

    def decode() -> Turn:
        return Turn({f"chunk of {n}": [seconds_per_frame(n) for _ in range(CHUNK_REPEATS)] for n in CHUNKS})

    seconds_per_frame(_CONTEXT_FRAMES)
    decode()
    yield decode


KINDS: dict[str, Load] = {"talker": talker, "engine": engine, "code2wav": code2wav}

if __name__ == "__main__":
    serve(KINDS)

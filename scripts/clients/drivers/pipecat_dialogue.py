"""Speaks turns with Pipecat: its sentence aggregator and OpenAI service, in a pipeline."""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from pathlib import Path

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.workers.runner import WorkerRunner


class Collector(FrameProcessor):
    """Keeps the audio that passes through it, and the errors."""

    def __init__(self) -> None:
        super().__init__()
        self.audio = bytearray()
        self.errors: list[str] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Collect from ``frame`` and pass it on."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.audio += frame.audio
        if isinstance(frame, ErrorFrame):
            self.errors.append(frame.error)
        await self.push_frame(frame, direction)


async def speak(address: str, tokens: list[str]) -> bytes:
    """Return the samples of one turn, given as tokens."""
    service = OpenAITTSService(
        api_key="none",
        base_url=f"{address}/v1",
        settings=OpenAITTSService.Settings(voice="alloy"),
        stop_frame_timeout_s=60,  # a machine that is busy may need longer than the default of 3 s
    )
    before, after = Collector(), Collector()  # errors travel upstream
    worker = PipelineWorker(Pipeline([before, service, after]), enable_rtvi=False)
    frames = [LLMFullResponseStartFrame(), *map(LLMTextFrame, tokens), LLMFullResponseEndFrame(), EndFrame()]
    await worker.queue_frames(frames)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()
    if before.errors:
        raise SystemExit(f"Pipecat reports: {before.errors}")
    return bytes(after.audio)


async def main(address: str, turns: list[list[str]], folder: Path) -> None:
    """Speak each turn into a file of ``folder``."""
    for number, tokens in enumerate(turns):
        samples = await speak(address, tokens)
        with wave.open(str(folder / f"{number:02}.wav"), "wb") as file:
            file.setparams((1, 2, 24_000, 0, "NONE", ""))
            file.writeframes(samples)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])))

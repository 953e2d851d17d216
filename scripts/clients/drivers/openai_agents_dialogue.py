"""Speaks turns with the voice pipeline of openai-agents and its sentence splitter."""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
from agents import set_tracing_disabled
from agents.voice import AudioInput, OpenAIVoiceModelProvider, STTModel, VoicePipeline, VoicePipelineConfig
from agents.voice.workflow import VoiceWorkflowBase


class Transcriber(STTModel):
    """Stands in for speech recognition: the answer is given."""

    @property
    def model_name(self) -> str:
        """The model's name."""
        return "none"

    async def transcribe(self, *_: Any) -> str:
        """Return a text that the workflow ignores."""
        return "Hello."

    async def create_session(self, *_: Any) -> Any:
        """Streamed recordings are not used."""
        raise RuntimeError("this driver does not stream recordings")


class Answer(VoiceWorkflowBase):
    """Answers with given tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    async def run(self, transcription: str) -> AsyncIterator[str]:
        """Yield the tokens."""
        for token in self.tokens:
            yield token


async def main(address: str, turns: list[list[str]], folder: Path) -> None:
    """Speak each turn, given as tokens, into a file of ``folder``."""
    set_tracing_disabled(True)
    provider = OpenAIVoiceModelProvider(base_url=f"{address}/v1", api_key="none")
    config = VoicePipelineConfig(model_provider=provider, tracing_disabled=True)
    for number, tokens in enumerate(turns):
        pipeline = VoicePipeline(workflow=Answer(tokens), stt_model=Transcriber(), config=config)
        result = await pipeline.run(AudioInput(buffer=np.zeros(2400, np.int16)))
        pieces = []
        async for event in result.stream():
            if event.type == "voice_stream_event_audio":
                pieces.append(event.data.tobytes())
            if event.type == "voice_stream_event_error":
                raise event.error
        with wave.open(str(folder / f"{number:02}.wav"), "wb") as file:
            file.setparams((1, 2, 24_000, 0, "NONE", ""))
            file.writeframes(b"".join(pieces))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])))

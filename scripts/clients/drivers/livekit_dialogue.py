"""Speaks turns with LiveKit Agents: its sentence splitter, stream adapter and OpenAI plugin."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from livekit import rtc
from livekit.agents import tokenize, tts
from livekit.plugins import openai


async def main(address: str, turns: list[list[str]], folder: Path) -> None:
    """Speak each turn, given as tokens, into a file of ``folder``. The defaults of the plugin: MP3 in SSE events."""
    plugin = openai.TTS(base_url=f"{address}/v1", api_key="none", voice="alloy")
    adapter = tts.StreamAdapter(tts=plugin, sentence_tokenizer=tokenize.blingfire.SentenceTokenizer())
    for number, tokens in enumerate(turns):
        frames: list[rtc.AudioFrame] = []
        async with adapter.stream() as stream:
            for token in tokens:
                stream.push_text(token)
            stream.end_input()
            async for event in stream:
                frames.append(event.frame)
        if frames:
            (folder / f"{number:02}.wav").write_bytes(rtc.combine_audio_frames(frames).to_wav_bytes())
    await plugin.aclose()


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])))

"""The answer to ``describe``: the voices of the served model."""

from __future__ import annotations

import asyncio

from wyoming.info import Attribution, Info, TtsProgram, TtsVoice

from server.served_model import ServedModel
from server.text.language import CODES
from server.version import version

_SONANT = Attribution("Sonant", "")
_QWEN = Attribution("Qwen3-TTS", "https://github.com/QwenLM/Qwen3-TTS")


async def info_of(model: ServedModel) -> Info:
    """Return the description of ``model``: its speakers, and the shared stored voices that it can use.

    Raises EngineError if the engine is not ready.
    """
    languages = [CODES.get(name, name) for name in model.info.readable_languages]
    names = [*model.info.speakers, *await asyncio.to_thread(_stored_voices, model)]
    voices = [
        TtsVoice(
            name=name,
            attribution=_QWEN,
            installed=True,
            description=name,
            version=None,
            languages=languages,
        )
        for name in names
    ]
    program = TtsProgram(
        name="sonant",
        attribution=_SONANT,
        installed=True,
        description=f"Sonant, model {model.name}",
        version=version(),
        voices=voices,
        supports_synthesize_streaming=True,
    )
    return Info(tts=[program])


def _stored_voices(model: ServedModel) -> list[str]:
    """Return the names of the shared stored voices that the checkpoint can use. Reads files."""
    if "Base" not in model.info.tasks:
        return []
    speakers = {speaker.lower() for speaker in model.info.speakers}
    width = model.info.embedding_width
    headers = model.voices.store(None).headers()
    return [voice.name for voice in headers if voice.name not in speakers and voice.width == width]

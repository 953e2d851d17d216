"""The answer to ``describe``: the served models and their voices."""

from __future__ import annotations

from collections.abc import Iterable

from wyoming.info import Attribution, Info, TtsProgram, TtsVoice

from server.served_model import ServedModel
from server.text.language import CODES
from server.version import version

_SONANT = Attribution("Sonant", "")
_QWEN = Attribution("Qwen3-TTS", "https://github.com/QwenLM/Qwen3-TTS")


async def info_of(models: Iterable[ServedModel]) -> Info:
    """Return the description of ``models``, each as a program: its speakers, and the shared voices that it can use.

    Raises EngineError if a model was never ready.
    """
    return Info(tts=[await _program(model) for model in models])


async def _program(model: ServedModel) -> TtsProgram:
    languages = [CODES.get(name, name) for name in model.info.readable_languages]
    names = {speaker: speaker for speaker in model.info.speakers}
    names |= await _stored_voices(model)
    voices = [
        TtsVoice(
            name=name,
            attribution=_QWEN,
            installed=True,
            description=description,
            version=None,
            languages=languages,
        )
        for name, description in names.items()
    ]
    return TtsProgram(
        name=model.name,
        attribution=_SONANT,
        installed=True,
        description=f"Sonant, model {model.name}",
        version=version(),
        voices=voices,
        supports_synthesize_streaming=True,
    )


async def _stored_voices(model: ServedModel) -> dict[str, str]:
    """Return the shared stored voices that the checkpoint can use: id -> display name."""
    if "Base" not in model.info.tasks:
        return {}
    speakers = {speaker.lower() for speaker in model.info.speakers}
    width = model.info.embedding_width
    headers = await model.voices.store(None).headers()
    usable = [each for each in headers if each.name not in speakers and each.width == width]
    return {each.name: each.display_name or each.name for each in usable}

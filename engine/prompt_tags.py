"""The codec side of a prompt's opening: language and voice (SPEC 3), and what a checkpoint offers of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.architecture import ModelArchitecture, TalkerArchitecture
from engine.errors import RequestError
from engine.request import SpeechRequest, Voice

AUTO = "auto"
_CHINESE = "chinese"


@dataclass(frozen=True, slots=True)
class Tags:
    """Codec ids of the tag rows, ending in pad; the bos that follows stands beside the text.

    voice_row: the row, held by -1, that is the voice's embedding; None without one.
    """

    ids: list[int]
    voice_row: int | None


def languages(model: ModelArchitecture) -> list[str]:
    """The languages that a request may name; "auto" goes without saying, dialects follow the speaker."""
    return [name for name in model.talker.languages if "dialect" not in name]


def tasks(model: ModelArchitecture) -> list[str]:
    """Of "CustomVoice", "VoiceDesign" and "Base": what the checkpoint has the parts for."""
    able = {
        "CustomVoice": bool(model.talker.speakers),
        "VoiceDesign": model.kind == "voice_design",
        "Base": model.speaker_encoder is not None,
    }
    return [task for task, possible in able.items() if possible]


def codec_tags(request: SpeechRequest, model: ModelArchitecture) -> Tags:
    """Language and voice of a request as tag rows.

    A voice to clone goes before a speaker's name; neither asks for a designed voice. Raises
    RequestError where the checkpoint lacks the language, the speaker or the ability.
    """
    codec, speaker, voice_row = model.talker.ids, None, None
    if request.voice is not None:
        _check_voice(request.voice, model)
    elif request.speaker is not None:
        speaker = _known_speaker(request.speaker, model)
    elif model.kind != "voice_design":
        raise RequestError(f"a voice is needed: {_how_to_name_a_voice(model)}", param="voice")
    language = _language_id(request.language, speaker, model)
    if language is None:
        ids = [codec.nothink, codec.think_bos, codec.think_eos]
    else:
        ids = [codec.think, codec.think_bos, language, codec.think_eos]
    if request.voice is not None:
        voice_row = len(ids)
        ids.append(-1)
    elif speaker is not None:
        ids.append(model.talker.speakers[speaker])
    return Tags([*ids, codec.pad], voice_row)


def _known_speaker(name: str, model: ModelArchitecture) -> str:
    """The checkpoint's own spelling of a speaker."""
    found = _spelling(name, model.talker.speakers)
    if found is None:
        message = f"there is no voice {name!r}: {_how_to_name_a_voice(model)}"
        raise RequestError(message, code="voice_not_found", param="voice")
    return found


def _language_id(name: str, speaker: str | None, model: ModelArchitecture) -> int | None:
    """The language's codec id; None for auto. A speaker of a dialect speaks it for Chinese and auto."""
    talker, wanted = model.talker, name.casefold()
    selectable = languages(model)
    found = _spelling(name, selectable)
    if wanted != AUTO and found is None:
        names = ", ".join([AUTO, *selectable])
        raise RequestError(f"there is no language {name!r}; the languages are {names}", param="language")
    if wanted in (AUTO, _CHINESE) and speaker is not None and speaker in talker.dialects:
        return talker.languages[talker.dialects[speaker]]
    return None if found is None else talker.languages[found]


def _spelling(name: str, known: dict[str, int] | list[str]) -> str | None:
    return next((own for own in known if own.casefold() == name.casefold()), None)


def _how_to_name_a_voice(model: ModelArchitecture) -> str:
    ways = []
    if model.talker.speakers:
        ways.append("has the voices " + ", ".join(model.talker.speakers))
    if model.kind == "voice_design":
        ways.append("makes a voice from a description, given as instructions")
    if model.speaker_encoder is not None:
        ways.append("clones a voice given as ref_audio or speaker_embedding")
    return "this checkpoint " + (" and ".join(ways) or "has none")


def _check_voice(voice: Voice, model: ModelArchitecture) -> None:
    if model.speaker_encoder is None:
        raise RequestError(
            "this checkpoint cannot clone a voice: it has no speaker encoder",
            code="unsupported_task",
            param="task_type",
        )
    width = model.speaker_encoder.width
    if voice.embedding.shape != (width,):
        message = f"a speaker embedding here has {width} values, not {list(voice.embedding.shape)}"
        raise RequestError(message, param="speaker_embedding")
    if not np.isfinite(voice.embedding).all():
        raise RequestError("a speaker embedding's values must be finite", param="speaker_embedding")
    if voice.codes is not None:
        _check_codes(voice, model.talker)


def _check_codes(voice: Voice, talker: TalkerArchitecture) -> None:
    codes, books, size = voice.codes, talker.codebooks, talker.predictor.vocab
    if codes is None or codes.ndim != 2 or codes.shape[1] != books or not len(codes):
        message = f"a reference's codes must be frames of {books}, one frame at least"
        raise RequestError(message, param="voice")
    if codes.min() < 0 or codes.max() >= size:
        raise RequestError(f"a reference's codes must be in 0..{size - 1}", param="voice")

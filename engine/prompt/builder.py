"""Builds the talker's prompt for a request, as token ids (SPEC 3). Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.architecture import ModelArchitecture, TalkerArchitecture, TextIds
from engine.errors import RequestError
from engine.prompt.tokenizer import TextTokenizer
from engine.protocol.request import SpeechRequest, TextLayout, Voice

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


_ROLE = 3
"""Tokens of "<|im_start|>assistant\\n"."""
_TURN_END = 2
"""Tokens of "<|im_end|>\\n"."""
_FOLLOWS_NONE = frozenset({"0b6", "pocket"})
"""Sizes (tts_model_size) whose custom voices were trained without instructions."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """Token ids. role: the turn's opening; instruction: a whole user turn, empty without one.

    reference: the transcript of the voice to clone, empty but for in-context cloning.
    text is never empty. read: tokens of the caller's own texts, the templates left out.
    """

    role: list[int]
    text: list[int]
    instruction: list[int]
    reference: list[int]
    read: int


def tokenize_prompt(request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer) -> PromptText:
    """Tokenise a request's texts. Raises RequestError for a text that is blank or has no UTF-8 form."""
    if not request.text.strip():
        raise RequestError("input has nothing to say", param="input")
    ids = model.text_ids
    turn = _turn("assistant", request.text, "input", ids, tokenizer)
    role, text = turn[:_ROLE], turn[_ROLE:-_TURN_END]
    if not text:
        raise RequestError("input has nothing to say", param="input")
    instruction = _instruction(request, model, tokenizer)
    reference = _reference(request, ids, tokenizer)
    own_instruction = len(instruction[_ROLE:-_TURN_END])
    return PromptText(role, text, instruction, reference, len(text) + own_instruction + len(reference))


def _instruction(request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer) -> list[int]:
    """Empty where the model was not trained to follow one: clones and the smaller models' custom voices."""
    untrained_for = request.voice is not None or (request.speaker is not None and model.size in _FOLLOWS_NONE)
    if not request.instructions or untrained_for:
        return []
    return _turn("user", request.instructions, "instructions", model.text_ids, tokenizer)


def _reference(request: SpeechRequest, ids: TextIds, tokenizer: TextTokenizer) -> list[int]:
    if request.voice is None or request.voice.codes is None:
        return []
    transcript = request.voice.transcript
    if transcript is None or not transcript.strip():
        raise RequestError("in-context cloning needs the transcript of the reference", param="ref_text")
    return _turn("assistant", transcript, "ref_text", ids, tokenizer)[_ROLE:-_TURN_END]


def _turn(role: str, text: str, param: str, ids: TextIds, tokenizer: TextTokenizer) -> list[int]:
    r"""The ids of "<|im_start|>{role}\n{text}<|im_end|>\n".

    Role and text are one string, because a text's leading line breaks may merge with the template's;
    the role is then cut off by count, as when the model was trained.
    """
    return [ids.im_start, *tokenizer.encode(f"{role}\n{text}", param), ids.im_end, *tokenizer.encode("\n")]


__all__ = ["NOTHING", "Prompt", "build_prompt", "default_layout", "languages", "tasks"]

NOTHING = -1
"""In ``Prompt.text`` and ``Prompt.codec``: this side adds nothing to the row."""


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """P prefill rows, each the sum of its text side and its codec side, and the text of the frames.

    text: int64 [P], ids of the text embedding (projected), or NOTHING.
    codec: int64 [P], ids of the talker's codec embedding, or NOTHING.
    embedding: float32 [hidden], the voice; it is the codec side of the row ``embedding_row``.
    codes: int64 [R, 16], the reference's frames; their frame embeddings are the codec side of the
    rows ``codes_row`` .. ``codes_row + R - 1``. Both rows are NOTHING when there is none.
    trailing: text ids that join the frames' embeddings, from frame 0 on; tts_pad ever after.
    input_tokens: tokens of the caller's own texts.
    """

    text: NDArray[np.int64]
    codec: NDArray[np.int64]
    embedding: NDArray[np.float32] | None
    embedding_row: int
    codes: NDArray[np.int64] | None
    codes_row: int
    trailing: list[int]
    input_tokens: int


@dataclass(slots=True)
class _Rows:
    """Prefill rows in the making."""

    text: list[int] = field(default_factory=list)
    codec: list[int] = field(default_factory=list)

    def add(self, text: list[int], codec: list[int]) -> int:
        """Append rows; a side of one id goes with every row. Returns the first row's number."""
        first, count = len(self.text), max(len(text), len(codec))
        self.text += text * count if len(text) == 1 else text
        self.codec += codec * count if len(codec) == 1 else codec
        return first


def default_layout(request: SpeechRequest) -> TextLayout:
    """The reference's: clones read the text as they speak, the other voices read it first."""
    return "full" if request.voice is None else "streaming"


def build_prompt(request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer) -> Prompt:
    """The prompt of a request. Raises RequestError for what this checkpoint cannot do.

    ``request.voice`` makes it a clone (in-context when the voice has codes), else ``request.speaker``
    a custom voice, else it is voice design.
    """
    tags = codec_tags(request, model)
    text = tokenize_prompt(request, model, tokenizer)
    layout = request.text_layout or default_layout(request)
    rows = _Rows()
    rows.add(text.instruction, [NOTHING] if text.instruction else [])
    rows.add(text.role, [NOTHING])
    tags_row = _add_tags(rows, tags, model)
    codes = request.voice.codes if request.voice is not None else None
    codes_row = NOTHING
    if codes is not None:
        codes_row, trailing = _add_in_context(rows, text, len(codes), layout, model)
    else:
        trailing = _add_text(rows, text.text, layout, model)
    return Prompt(
        text=np.array(rows.text, np.int64),
        codec=np.array(rows.codec, np.int64),
        embedding=None if request.voice is None else request.voice.embedding.astype(np.float32),
        embedding_row=NOTHING if tags.voice_row is None else tags_row + tags.voice_row,
        codes=None if codes is None else codes.astype(np.int64),
        codes_row=codes_row,
        trailing=trailing,
        input_tokens=text.read,
    )


def _add_tags(rows: _Rows, tags: Tags, model: ModelArchitecture) -> int:
    """tts_pad beside every tag but the last, codec pad, which gets tts_bos."""
    ids = model.text_ids
    return rows.add([ids.tts_pad] * (len(tags.ids) - 1) + [ids.tts_bos], tags.ids)


def _add_text(rows: _Rows, text: list[int], layout: TextLayout, model: ModelArchitecture) -> list[int]:
    """The text's rows, of a prompt without a reference. Returns the trailing ids."""
    ids, codec = model.text_ids, model.talker.ids
    if layout == "streaming":
        rows.add(text[:1], [codec.bos])
        return [*text[1:], ids.tts_eos]
    rows.add([*text, ids.tts_eos], [codec.pad])
    rows.add([ids.tts_pad], [codec.bos])
    return []


def _add_in_context(
    rows: _Rows, text: PromptText, frames: int, layout: TextLayout, model: ModelArchitecture
) -> tuple[int, list[int]]:
    """Transcript, text and the reference's frames. Returns the first frame's row and the trailing ids."""
    ids, codec = model.text_ids, model.talker.ids
    spoken = [*text.reference, *text.text, ids.tts_eos]
    codec_side = [codec.bos] + [NOTHING] * frames
    if layout == "full":
        rows.add(spoken, [codec.pad])
        return rows.add([ids.tts_pad], codec_side) + 1, []
    beside, trailing = spoken[: len(codec_side)], spoken[len(codec_side) :]
    padding = [ids.tts_pad] * (len(codec_side) - len(beside))
    return rows.add(beside + padding, codec_side) + 1, trailing

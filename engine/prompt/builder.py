"""Builds the talker's prompt for a request, as token ids (SPEC 3). Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.architecture import ModelArchitecture, TalkerArchitecture, TextIds
from engine.errors import RequestError
from engine.prompt.tokenizer import TextTokenizer
from engine.protocol.request import SpeechRequest, Voice
from engine.protocol.speech_profile import TextLayout

AUTO = "auto"
_CHINESE = "chinese"


@dataclass(frozen=True, slots=True)
class Tags:
    """Codec ids of the tag rows, which end with pad. The bos that follows is in a row with text, so it is not here.

    voice_row: the index of the row for the voice's embedding, where ``ids`` has -1; None without a voice to clone.
    """

    ids: list[int]
    voice_row: int | None


def languages(model: ModelArchitecture) -> list[str]:
    """Return the languages that a request may name, besides "auto". Excludes dialects, which the speaker determines."""
    return [name for name in model.talker.languages if "dialect" not in name]


def tasks(model: ModelArchitecture) -> list[str]:
    """Return the tasks that the checkpoint supports: a subset of "CustomVoice", "VoiceDesign" and "Base"."""
    supported = {
        "CustomVoice": bool(model.talker.speakers),
        "VoiceDesign": model.kind == "voice_design",
        "Base": model.speaker_encoder is not None,
    }
    return [task for task, possible in supported.items() if possible]


def codec_tags(request: SpeechRequest, model: ModelArchitecture) -> Tags:
    """Return the tag rows for the language and the voice of a request.

    A voice to clone takes precedence over a speaker's name. Without either, this is voice design. Raises RequestError
    if the checkpoint does not support the language, the speaker or the task.
    """
    codec, speaker, voice_row = model.talker.ids, None, None
    if request.voice is not None:
        _check_voice(request.voice, model)
    elif request.speaker is not None:
        speaker = _find_speaker(request.speaker, model)
    elif model.kind != "voice_design":
        raise RequestError(f"voice is missing: {_available_voices(model)}", param="voice")
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


def _find_speaker(name: str, model: ModelArchitecture) -> str:
    """Return a speaker's name as the checkpoint spells it. Raises RequestError if it is unknown."""
    known = _find_name(name, model.talker.speakers)
    if known is None:
        message = f"unknown voice {name!r}: {_available_voices(model)}"
        raise RequestError(message, code="voice_not_found", param="voice")
    return known


def _language_id(name: str, speaker: str | None, model: ModelArchitecture) -> int | None:
    """Return the codec id of the language, or None for "auto".

    For "auto" and Chinese, a speaker of a dialect gets the id of the dialect.
    """
    talker, folded = model.talker, name.casefold()
    known = None if folded == AUTO else _find_name(name, languages(model))
    if folded != AUTO and known is None:
        names = ", ".join([AUTO, *languages(model)])
        raise RequestError(f"language must be one of {names}, got {name!r}", param="language")
    if folded in (AUTO, _CHINESE) and speaker is not None and speaker in talker.dialects:
        return talker.languages[talker.dialects[speaker]]
    return None if known is None else talker.languages[known]


def _find_name(name: str, names: dict[str, int] | list[str]) -> str | None:
    return next((candidate for candidate in names if candidate.casefold() == name.casefold()), None)


def _available_voices(model: ModelArchitecture) -> str:
    options = []
    if model.talker.speakers:
        options.append("has the voices " + ", ".join(model.talker.speakers))
    if model.kind == "voice_design":
        options.append("makes a voice from a description, given as instructions")
    if model.speaker_encoder is not None:
        options.append("clones a voice given as ref_audio or speaker_embedding")
    return "this checkpoint " + (" and ".join(options) or "has none")


def _check_voice(voice: Voice, model: ModelArchitecture) -> None:
    if model.speaker_encoder is None:
        raise RequestError(
            "this checkpoint cannot clone a voice: it has no speaker encoder",
            code="unsupported_task",
            param="task_type",
        )
    width = model.speaker_encoder.width
    if voice.embedding.shape != (width,):
        message = f"speaker_embedding must have {width} values, got shape {list(voice.embedding.shape)}"
        raise RequestError(message, param="speaker_embedding")
    if not np.isfinite(voice.embedding).all():
        raise RequestError("speaker_embedding must be finite, got NaN or infinity", param="speaker_embedding")
    if voice.codes is not None:
        _check_codes(voice, model.talker)


def _check_codes(voice: Voice, talker: TalkerArchitecture) -> None:
    codes, codebooks, size = voice.codes, talker.codebooks, talker.predictor.vocab
    if codes is None or codes.ndim != 2 or codes.shape[1] != codebooks or not len(codes):
        shape = None if codes is None else list(codes.shape)
        message = f"the codes of a voice must have {codebooks} codebooks and at least one frame, got shape {shape}"
        raise RequestError(message, param="voice")
    if codes.min() < 0 or codes.max() >= size:
        message = f"the codes of a voice must be in 0..{size - 1}, got {codes.min()}..{codes.max()}"
        raise RequestError(message, param="voice")


_ROLE_TOKENS = 3
"""Number of tokens of "<|im_start|>assistant\\n"."""
_END_TOKENS = 2
"""Number of tokens of "<|im_end|>\\n"."""
_SIZES_WITHOUT_INSTRUCTIONS = frozenset({"0b6", "pocket"})
"""Sizes (tts_model_size) whose custom voices were trained without instructions."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """Token ids of the parts of a prompt.

    role: the start of the assistant turn. text: the text to speak, never empty.
    instruction: a complete user turn, or empty. reference: the transcript of the voice to clone, or empty unless this
    is in-context cloning. input_tokens: number of tokens of the caller's texts, without the templates.
    """

    role: list[int]
    text: list[int]
    instruction: list[int]
    reference: list[int]
    input_tokens: int


def tokenize_prompt(request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer) -> PromptText:
    """Tokenize the texts of a request. Raises RequestError for a blank text or an unpaired surrogate."""
    if not request.text.strip():
        raise RequestError("input must contain text to speak, got only white space", param="input")
    ids = model.text_ids
    turn = _chat_turn("assistant", request.text, "input", ids, tokenizer)
    role, text = turn[:_ROLE_TOKENS], turn[_ROLE_TOKENS:-_END_TOKENS]
    if not text:
        raise RequestError("input must contain text to speak, got only white space", param="input")
    instruction = _instruction(request, model, tokenizer)
    reference = _reference(request, ids, tokenizer)
    instruction_tokens = len(instruction[_ROLE_TOKENS:-_END_TOKENS])
    return PromptText(role, text, instruction, reference, len(text) + instruction_tokens + len(reference))


def prompt_texts(request: SpeechRequest, model: ModelArchitecture) -> list[str]:
    """Return the strings that ``tokenize_prompt`` tokenizes, for ``TextTokenizer.encode_ahead``."""
    texts = [("assistant", request.text)]
    if request.instructions and _follows_instructions(request, model):
        texts.append(("user", request.instructions))
    if request.voice is not None and request.voice.codes is not None:
        texts.append(("assistant", request.voice.transcript or ""))
    return [_role_and_text(role, text) for role, text in texts if text.strip()]


def _follows_instructions(request: SpeechRequest, model: ModelArchitecture) -> bool:
    """Return whether the model was trained with instructions for this kind of voice.

    It was not for clones, and the smaller models were not for custom voices.
    """
    named = request.speaker is not None and model.size in _SIZES_WITHOUT_INSTRUCTIONS
    return request.voice is None and not named


def _instruction(request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer) -> list[int]:
    """Return the instruction turn, or an empty list if there is none or the model was not trained to follow it."""
    if not request.instructions or not _follows_instructions(request, model):
        return []
    return _chat_turn("user", request.instructions, "instructions", model.text_ids, tokenizer)


def _reference(request: SpeechRequest, ids: TextIds, tokenizer: TextTokenizer) -> list[int]:
    if request.voice is None or request.voice.codes is None:
        return []
    transcript = request.voice.transcript
    if transcript is None or not transcript.strip():
        raise RequestError("ref_text must be the transcript of ref_audio for in-context cloning", param="ref_text")
    return _chat_turn("assistant", transcript, "ref_text", ids, tokenizer)[_ROLE_TOKENS:-_END_TOKENS]


def _chat_turn(role: str, text: str, param: str, ids: TextIds, tokenizer: TextTokenizer) -> list[int]:
    r"""Return the token ids of "<|im_start|>{role}\n{text}<|im_end|>\n".

    Role and text are tokenized as one string, because leading line breaks of the text can merge with the line break of
    the template. The caller removes the role by its number of tokens, as in training.
    """
    return [ids.im_start, *tokenizer.encode(_role_and_text(role, text), param), ids.im_end, *tokenizer.line_break]


def _role_and_text(role: str, text: str) -> str:
    return f"{role}\n{text}"


NO_TOKEN = -1
"""Placeholder in ``Prompt.text`` and ``Prompt.codec``: this side adds nothing to the row."""


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """P prefill rows, and the text of the frames. Each row is the sum of its text side and its codec side.

    text: int64 [P], ids of the text embedding (projected), or NO_TOKEN.
    codec: int64 [P], ids of the talker's codec embedding, or NO_TOKEN.
    embedding: float32 [hidden], the voice. It is the codec side of the row ``embedding_row``.
    codes: int64 [R, 16], the frames of the reference recording. Their frame embeddings are the codec side of the rows
    ``codes_row`` .. ``codes_row + R - 1``.
    embedding_row, codes_row: NO_TOKEN if there is no embedding or there are no codes.
    trailing: text ids to add to the frame embeddings, from frame 0 on. After the last one, tts_pad is added.
    input_tokens: number of tokens of the caller's texts.
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
    """A builder of prefill rows."""

    text: list[int] = field(default_factory=list)
    codec: list[int] = field(default_factory=list)

    def add(self, text: list[int], codec: list[int]) -> int:
        """Append rows. If a side has one id, it is repeated for every row. Return the index of the first new row."""
        first, count = len(self.text), max(len(text), len(codec))
        self.text += text * count if len(text) == 1 else text
        self.codec += codec * count if len(codec) == 1 else codec
        return first


def default_layout(request: SpeechRequest) -> TextLayout:
    """Return the default layout of the reference implementation: "streaming" for clones, "full" for other voices."""
    return "full" if request.voice is None else "streaming"


def build_prompt(
    request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer, layout: TextLayout | None = None
) -> Prompt:
    """Build the prompt of a request. Raises RequestError if this checkpoint does not support the request.

    If ``request.voice`` is set, the task is cloning, in context if the voice has codes. Otherwise it is a custom voice
    if ``request.speaker`` is set, and voice design if not.

    layout: of a request that chooses none; None: ``default_layout``.
    """
    tags = codec_tags(request, model)
    text = tokenize_prompt(request, model, tokenizer)
    layout = request.text_layout or layout or default_layout(request)
    rows = _Rows()
    rows.add(text.instruction, [NO_TOKEN] if text.instruction else [])
    rows.add(text.role, [NO_TOKEN])
    tags_row = _add_tags(rows, tags, model)
    codes = request.voice.codes if request.voice is not None else None
    codes_row = NO_TOKEN
    if codes is not None:
        codes_row, trailing = _add_in_context(rows, text, len(codes), layout, model)
    else:
        trailing = _add_text(rows, text.text, layout, model)
    return Prompt(
        text=np.array(rows.text, np.int64),
        codec=np.array(rows.codec, np.int64),
        embedding=None if request.voice is None else request.voice.embedding.astype(np.float32),
        embedding_row=NO_TOKEN if tags.voice_row is None else tags_row + tags.voice_row,
        codes=None if codes is None else codes.astype(np.int64),
        codes_row=codes_row,
        trailing=trailing,
        input_tokens=text.input_tokens,
    )


def _add_tags(rows: _Rows, tags: Tags, model: ModelArchitecture) -> int:
    """Add the tag rows, with the text id tts_pad. The last row, codec pad, has tts_bos. Return the first row."""
    ids = model.text_ids
    return rows.add([ids.tts_pad] * (len(tags.ids) - 1) + [ids.tts_bos], tags.ids)


def _add_text(rows: _Rows, text: list[int], layout: TextLayout, model: ModelArchitecture) -> list[int]:
    """Add the text rows of a prompt without reference codes. Return the trailing ids."""
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
    """Add transcript, text and the reference's frames. Return the row of the first frame and the trailing ids."""
    ids, codec = model.text_ids, model.talker.ids
    text_side = [*text.reference, *text.text, ids.tts_eos]
    codec_side = [codec.bos] + [NO_TOKEN] * frames
    if layout == "full":
        rows.add(text_side, [codec.pad])
        return rows.add([ids.tts_pad], codec_side) + 1, []
    first, trailing = text_side[: len(codec_side)], text_side[len(codec_side) :]
    padding = [ids.tts_pad] * (len(codec_side) - len(first))
    return rows.add(first + padding, codec_side) + 1, trailing

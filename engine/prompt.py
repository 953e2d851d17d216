"""A request to the talker's prompt, in ids (SPEC 3). Free of torch: the talker turns ids into rows.

Live text: in the streaming layout the trailing ids are the rest of the text and then tts_eos. Text
that arrives while the talker runs goes in before that tts_eos, as ``TextTokenizer.encode`` of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.architecture import ModelArchitecture
from engine.prompt_tags import Tags, codec_tags, languages, tasks
from engine.prompt_text import PromptText, tokenize_prompt
from engine.request import SpeechRequest, TextLayout
from engine.text_tokenizer import TextTokenizer

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

"""An utterance as rows of ids: the engine's own prompt, then its frames (SPEC 3, 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.architecture import ModelArchitecture
from engine.prompt.builder import NO_TOKEN, build_prompt
from engine.prompt.tokenizer import TextTokenizer
from engine.protocol.request import SpeechRequest


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Rows to be learnt from.

    text: int16 [n], ids of the text side or -1. codes: int16 [n, 16], of the codec side: a frame's, or a tag's id in
    the first column; -1 adds nothing. xvector: float32 [hidden], which joins the row ``xvector_row``; None without one.
    first: the row whose state is to give the first frame; each row after it holds the frame that the row before it is
    to give, and the last row is to give eos.
    """

    text: NDArray[np.int16]
    codes: NDArray[np.int16]
    xvector: NDArray[np.float32] | None
    xvector_row: int
    first: int

    def __len__(self) -> int:
        return len(self.text)


def lay_out(
    request: SpeechRequest, frames: NDArray[np.int16], model: ModelArchitecture, tokenizer: TextTokenizer
) -> Example:
    """The rows of ``request`` answered with ``frames`` [n, 16].

    A reference in the prompt is speech of the same kind, so its frames are learnt from too.
    """
    prompt = build_prompt(request, model, tokenizer)
    read, made = len(prompt.text), len(frames)
    text = np.full(read + made, model.text_ids.tts_pad, np.int16)
    text[:read] = prompt.text
    beside = min(made, len(prompt.trailing))
    text[read : read + beside] = prompt.trailing[:beside]
    codes = np.full((read + made, frames.shape[1]), NO_TOKEN, np.int16)
    codes[:read, 0] = prompt.codec
    if prompt.codes is not None:
        codes[prompt.codes_row : prompt.codes_row + len(prompt.codes)] = prompt.codes
    codes[read:] = frames
    first = read - 1 if prompt.codes is None else prompt.codes_row - 1
    return Example(text, codes, prompt.embedding, max(prompt.embedding_row, 0), first)

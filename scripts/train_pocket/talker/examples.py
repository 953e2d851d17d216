"""Training examples as rows of ids: the engine's prompt, then the frames (SPEC 3, 4)."""

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
    """The rows of one training example.

    text: int16 [n], text ids or -1. codes: int16 [n, 16], codes of a frame, or a tag id in the first column; -1 for
    none. xvector: float32 [hidden], which is added to the row ``xvector_row``; None without one.
    first: the row whose state predicts the first frame. Each later row contains the frame that the previous row
    predicts, and the last row predicts eos.
    """

    text: NDArray[np.int16]
    codes: NDArray[np.int16]
    xvector: NDArray[np.float32] | None
    xvector_row: int
    first: int

    def __len__(self) -> int:
        return len(self.text)


def build_example(
    request: SpeechRequest,
    frames: NDArray[np.int16],
    model: ModelArchitecture,
    tokenizer: TextTokenizer,
    *,
    learn_reference: bool = True,
) -> Example:
    """Return the rows of ``request`` with the response ``frames`` [n, 16].

    learn_reference: use the frames of a reference in the prompt as targets, too, because they are also speech.
    """
    prompt = build_prompt(request, model, tokenizer)
    prompt_rows, frame_rows = len(prompt.text), len(frames)
    text = np.full(prompt_rows + frame_rows, model.text_ids.tts_pad, np.int16)
    text[:prompt_rows] = prompt.text
    text_beside_frames = min(frame_rows, len(prompt.trailing))
    text[prompt_rows : prompt_rows + text_beside_frames] = prompt.trailing[:text_beside_frames]
    codes = np.full((prompt_rows + frame_rows, frames.shape[1]), NO_TOKEN, np.int16)
    codes[:prompt_rows, 0] = prompt.codec
    if prompt.codes is not None:
        codes[prompt.codes_row : prompt.codes_row + len(prompt.codes)] = prompt.codes
    codes[prompt_rows:] = frames
    first = prompt.codes_row - 1 if prompt.codes is not None and learn_reference else prompt_rows - 1
    return Example(text, codes, prompt.embedding, max(prompt.embedding_row, 0), first)

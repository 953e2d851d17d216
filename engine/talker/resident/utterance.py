"""An utterance on its way through vLLM: one object, which the talker and the model's state both hold."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.prompt import NOTHING, Prompt
from engine.request import CODEBOOKS, FinishReason
from engine.talker.base import Sampling, TalkerOutput

_NO_CODES = np.zeros((0, CODEBOOKS), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """What input rows are the sum of: ids of both sides [n] (or NOTHING), and for some of them codes or a voice.

    codes: [m, 16], of the rows from ``codes_row`` on; voice: [hidden], of the row ``voice_row``.
    """

    text: NDArray[np.int64]
    codec: NDArray[np.int64]
    codes: NDArray[np.int64]
    codes_row: int
    voice: NDArray[np.float32] | None
    voice_row: int


@dataclass(slots=True, eq=False)
class Utterance:
    """What is known of an utterance.

    key: its name inside vLLM, never used twice. text: the ids beside its frames so far; text_open: more will come.
    frames: the codes [16] of every frame made. outputs: what has been made and not yet handed out.
    """

    stream: int
    key: str
    prompt: Prompt
    sampling: Sampling
    text: list[int]
    text_open: bool
    frames: list[NDArray[np.int16]] = field(default_factory=list)
    outputs: deque[TalkerOutput] = field(default_factory=deque)
    finished: bool = False

    def append_text(self, ids: list[int], *, last: bool) -> None:
        """More ids beside the frames. A closed text is a ValueError."""
        if not self.text_open:
            raise ValueError("the text of this utterance is already complete")
        self.text.extend(ids)
        self.text_open = not last

    def knows_text(self, frame: int) -> bool:
        """Whether it is known what stands beside ``frame``."""
        return not self.text_open or frame < len(self.text)

    def draw(self, codes: NDArray[np.int16]) -> None:
        """A frame has been made."""
        self.frames.append(codes.copy())  # a row of its step's array, which it would keep alive
        self.outputs.append(TalkerOutput(self.stream, codes))

    def finish(self, reason: FinishReason) -> None:
        """There will be no more frames."""
        self.finished = True
        self.outputs.append(TalkerOutput(self.stream, None, reason))

    def rows(self, first: int, stop: int, text_pad: int) -> RowIds:
        """The ids of the input rows at positions ``first`` to ``stop``: of the prompt, and after it of frames made."""
        prompt, length = self.prompt, len(self.prompt.text)
        frames = range(max(first - length, 0), max(stop - length, 0))
        beside = [self.text[frame] if frame < len(self.text) else text_pad for frame in frames]
        start = max(first, length if prompt.codes is None else prompt.codes_row)
        speaks = prompt.embedding is not None and first <= prompt.embedding_row < stop
        return RowIds(
            text=np.concatenate((prompt.text[first:stop], np.array(beside, np.int64))),
            codec=np.concatenate((prompt.codec[first:stop], np.full(len(beside), NOTHING, np.int64))),
            codes=self._codes(start, max(start, stop)),
            codes_row=start - first,
            voice=prompt.embedding if speaks else None,
            voice_row=prompt.embedding_row - first,
        )

    def _codes(self, start: int, stop: int) -> NDArray[np.int64]:
        """The codes [stop - start, 16] of positions that have some: a reference ends its prompt, frames follow."""
        length = len(self.prompt.text)
        reference = _NO_CODES if self.prompt.codes is None else self.prompt.codes
        before = length - len(reference)
        frames = self.frames[max(start - length, 0) : max(stop - length, 0)]
        made = np.array(frames, np.int64).reshape(-1, CODEBOOKS)
        return np.concatenate((reference[start - before : stop - before], made))

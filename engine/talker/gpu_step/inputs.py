"""Builds the input rows of a step on the device, and tracks the utterances they belong to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.models.talker import CodecSide
from engine.prompt.builder import NO_TOKEN, Prompt
from engine.protocol.request import CODEBOOKS, FinishReason
from engine.talker.base import Sampling, TalkerOutput
from engine.talker.gpu_step.slots import Slots, Uploader

_NO_CODES = np.zeros((0, CODEBOOKS), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """Ids from which input rows are computed. A row is the sum of the embeddings of its parts.

    text, codec: ids [n], or NO_TOKEN. codes: [m, 16], for the rows from ``codes_row`` on. voice: [hidden], an embedding
    for the row ``voice_row``.
    """

    text: NDArray[np.int64]
    codec: NDArray[np.int64]
    codes: NDArray[np.int64]
    codes_row: int
    voice: NDArray[np.float32] | None
    voice_row: int


@dataclass(slots=True, eq=False)
class Utterance:
    """The host state of an utterance.

    key: the request id in vLLM, never reused. text: the text ids paired with its frames, as far as known; text_open:
    more text will come. frames: the codes [16] of every frame made. outputs: outputs not yet returned by ``step``.
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
        """Append text ids; ``last`` closes the text. Raises ValueError when the text is closed."""
        if not self.text_open:
            raise ValueError("the text of this utterance is already complete")
        self.text.extend(ids)
        self.text_open = not last

    def knows_text(self, frame: int) -> bool:
        """Return whether the text id paired with ``frame`` is known."""
        return not self.text_open or frame < len(self.text)

    def draw(self, codes: NDArray[np.int16]) -> None:
        """Record a new frame."""
        self.frames.append(codes.copy())  # codes is a view that would keep the array of the whole step alive
        self.outputs.append(TalkerOutput(self.stream, codes))

    def finish(self, reason: FinishReason) -> None:
        """Record that there are no more frames."""
        self.finished = True
        self.outputs.append(TalkerOutput(self.stream, None, reason))

    def rows(self, first: int, stop: int, text_pad: int) -> RowIds:
        """Return the ids of the input rows at positions ``first`` to ``stop``: prompt rows, then frames made so far."""
        prompt, length = self.prompt, len(self.prompt.text)
        frames = range(max(first - length, 0), max(stop - length, 0))
        beside = [self.text[frame] if frame < len(self.text) else text_pad for frame in frames]
        start = max(first, length if prompt.codes is None else prompt.codes_row)
        speaks = prompt.embedding is not None and first <= prompt.embedding_row < stop
        return RowIds(
            text=np.concatenate((prompt.text[first:stop], np.array(beside, np.int64))),
            codec=np.concatenate((prompt.codec[first:stop], np.full(len(beside), NO_TOKEN, np.int64))),
            codes=self._codes(start, max(start, stop)),
            codes_row=start - first,
            voice=prompt.embedding if speaks else None,
            voice_row=prompt.embedding_row - first,
        )

    def _codes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes [stop - start, 16] of positions that have codes.

        These are the reference recording's codes at the end of the prompt, and the frames after it.
        """
        length = len(self.prompt.text)
        reference = _NO_CODES if self.prompt.codes is None else self.prompt.codes
        before = length - len(reference)
        frames = self.frames[max(start - length, 0) : max(stop - length, 0)]
        made = np.array(frames, np.int64).reshape(-1, CODEBOOKS)
        return np.concatenate((reference[start - before : stop - before], made))


_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    """The input rows of a step. All arrays are [n], one entry per request of the batch.

    slots: the request's slot; ``device_slots`` is a copy on the device. starts, counts: its first input row, and how
    many it has. positions: the position of the first row in its utterance. reading: whether the rows are prefill (the
    prompt, or frames that are recomputed after preemption).
    """

    slots: NDArray[np.int64]
    device_slots: Tensor
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    positions: NDArray[np.int64]
    reading: NDArray[np.bool_]


class StepInputs:
    """Fills the buffer of input rows.

    text_table: [text vocab + 1, hidden], one row per text id, then a row of zeros for NO_TOKEN. ``join`` and ``leave``
    change only host state; the next step uploads the changes to the device in one transfer.
    """

    def __init__(self, slots: Slots, text_table: Tensor, codec: CodecSide, *, text_pad: int) -> None:
        self._slots, self._text_table, self._codec = slots, text_table, codec
        self._text_pad = text_pad
        self._upload = Uploader(text_table.device)
        self._at: dict[int, Utterance] = {}
        self._joining: list[tuple[int, int]] = []
        self._text_sent: dict[int, int] = {}

    def join(self, slot: int, utterance: Utterance, drawn: int) -> None:
        """Assign a slot to an utterance. drawn: frames it made before it was preempted, else 0."""
        self._at[slot] = utterance
        self._joining.append((slot, drawn))
        self._text_sent[slot] = 0

    def leave(self, slot: int) -> None:
        """Free a slot."""
        self._at.pop(slot, None)
        self._text_sent.pop(slot, None)

    def fill(self, out: Tensor, step: StepRows) -> None:
        """Write the step's input rows into ``out`` [rows, hidden]."""
        self._tell_news()
        if not step.reading.any():
            out[: len(step.slots)] = self._fed_back(step.device_slots)
            return
        fed = np.flatnonzero(~step.reading)
        read, places = self._read(step)
        coded, codes, voiced, voices = _parts(read, places)
        wanted = (
            *(step.starts[fed], step.slots[fed]),
            *(np.concatenate(places or [_NONE]), _joined(read, "text"), _joined(read, "codec")),
            *(coded, codes, voiced, voices),
        )
        fed_at, fed_slots, at, text, codec, coded_at, codes_up, voiced_at, voices_up = self._upload(*wanted)
        if len(fed):
            out.index_copy_(0, fed_at, self._fed_back(fed_slots))
        if len(at):
            out.index_copy_(0, at, self._prompt_rows(text, codec))
        if len(coded):
            out.index_add_(0, coded_at, self._codec.frame_rows(codes_up.view(len(coded), -1)))
        if len(voiced):
            rows = voices_up.view(torch.float32).view(len(voiced), -1)
            out.index_add_(0, voiced_at, rows.to(out.dtype))

    def _read(self, step: StepRows) -> tuple[list[RowIds], list[NDArray[np.int64]]]:
        """Return the ids of the prefill rows of this step, and the input rows they go to."""
        read, places = [], []
        for row in np.flatnonzero(step.reading):
            utterance = self._at.get(int(step.slots[row]))
            if utterance is None:
                continue
            first, count, start = int(step.positions[row]), int(step.counts[row]), int(step.starts[row])
            read.append(utterance.rows(first, first + count, self._text_pad))
            places.append(np.arange(start, start + count, dtype=np.int64))
        return read, places

    def _fed_back(self, slots: Tensor) -> Tensor:
        """Return input rows for slots [n]: the embedding of the newest frame plus the row of its text id."""
        return self._slots.frame[slots] + self._text_table[self._slots.text_beside_newest(slots)]

    def _prompt_rows(self, text: Tensor, codec: Tensor) -> Tensor:
        nothing = len(self._text_table) - 1
        rows = self._text_table[text.masked_fill(text == NO_TOKEN, nothing)]
        absent = (codec == NO_TOKEN)[:, None]
        return rows + self._codec.id_rows(codec.clamp(0)).masked_fill(absent, 0)

    def _tell_news(self) -> None:
        """Upload the utterances that joined and the text that arrived since the last step."""
        places, ids = self._news_of_text()
        joining, self._joining = self._joining, []
        here = [(slot, drawn, self._at[slot]) for slot, drawn in joining if slot in self._at]
        if not here and not len(ids):
            return
        parameters = [Slots.parameters(utterance.sampling) for _, _, utterance in here]
        seen = [(slot, codes[0]) for slot, drawn, utterance in here for codes in utterance.frames[:drawn]]
        uploaded = self._upload(
            np.array([slot for slot, _, _ in here], np.int64),
            np.array([drawn for _, drawn, _ in here], np.int64),
            np.array([whole for whole, _ in parameters], np.int64),
            np.array([real for _, real in parameters], np.float64).view(np.int64),
            np.array(seen, np.int64).reshape(-1, 2).T,
            places,
            ids,
        )
        slots, drawn, whole, real, seen_at, places_up, ids_up = uploaded
        if here:
            shape = (len(here), -1)
            self._slots.join(slots, drawn, whole.view(shape), real.view(torch.float64).view(shape))
        if seen:
            self._slots.rules.remember(*seen_at.view(2, -1))
        if len(ids):
            self._slots.write_text(places_up, ids_up)

    def _news_of_text(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the text that is not yet on the device: flat indices in ``Slots.text``, and the ids."""
        places, ids = [_NONE], [_NONE]
        for slot, sent in list(self._text_sent.items()):
            utterance = self._at[slot]
            where = self._slots.places_of_text(slot, sent, len(utterance.text) - sent)
            places.append(where)
            ids.append(np.array(utterance.text[sent : sent + len(where)], np.int64))
            self._text_sent[slot] = len(utterance.text)
            if not utterance.text_open:
                del self._text_sent[slot]
        return np.concatenate(places), np.concatenate(ids)


def _parts(
    read: list[RowIds], places: list[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return rows with codes, the codes, rows with a voice, and the voices (two float32 values per int64 word)."""
    coded = [where[ids.codes_row : ids.codes_row + len(ids.codes)] for ids, where in zip(read, places, strict=True)]
    voiced = [where[ids.voice_row] for ids, where in zip(read, places, strict=True) if ids.voice is not None]
    voices = [ids.voice.view(np.int64) for ids in read if ids.voice is not None]
    return (
        np.concatenate([_NONE, *coded]),
        np.concatenate([_NONE, *(ids.codes.ravel() for ids in read)]),
        np.array(voiced, np.int64),
        np.concatenate([_NONE, *voices]),
    )


def _joined(read: list[RowIds], side: str) -> NDArray[np.int64]:
    return np.concatenate([_NONE, *(getattr(ids, side) for ids in read)])

"""Builds the input rows of a step on the device, and tracks the utterances they belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.models.talker import CodecSide
from engine.prompt.builder import NO_TOKEN, Prompt
from engine.protocol.request import CODEBOOKS, FinishReason
from engine.talker.base import Sampling, TalkerOutput
from engine.talker.gpu_step.slots import Slots
from engine.talker.gpu_step.uploader import Uploader
from engine.talker.sampling_params import FLOAT_COLUMNS, INT_COLUMNS, CodebookParams, SamplingTensors, host_columns

_NO_CODES = np.zeros((0, CODEBOOKS), np.int64)
_NO_IDS = np.zeros(0, np.int64)


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
class UtteranceState:
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

    def add_frame(self, codes: NDArray[np.int16]) -> None:
        """Record a new frame, codes [16]."""
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
        frame_text = [self.text[frame] if frame < len(self.text) else text_pad for frame in frames]
        start = max(first, length if prompt.codes is None else prompt.codes_row)
        has_voice = prompt.embedding is not None and first <= prompt.embedding_row < stop
        return RowIds(
            text=np.concatenate((prompt.text[first:stop], np.array(frame_text, np.int64))),
            codec=np.concatenate((prompt.codec[first:stop], np.full(len(frame_text), NO_TOKEN, np.int64))),
            codes=self._codes(start, max(start, stop)),
            codes_row=start - first,
            voice=prompt.embedding if has_voice else None,
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


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    """The input rows of a step. All arrays are [n], one entry per request of the batch.

    slots: the request's slot; ``device_slots`` is a copy on the device. starts, counts: its first input row, and how
    many it has. positions: the position of the first row in its utterance. prefill: whether the rows are prefill (the
    prompt, or frames that are recomputed after preemption).
    """

    slots: NDArray[np.int64]
    device_slots: Tensor
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    positions: NDArray[np.int64]
    prefill: NDArray[np.bool_]


class StepInputs:
    """Fills the buffer of input rows.

    text_table: [text vocab + 1, hidden], one row per text id, then a row of zeros for NO_TOKEN. ``join`` and ``leave``
    change only host state; the next step uploads the changes to the device in one transfer.
    """

    def __init__(self, slots: Slots, text_table: Tensor, codec: CodecSide, *, text_pad: int) -> None:
        self._slots, self._text_table, self._codec = slots, text_table, codec
        self._text_pad = text_pad
        self._upload = Uploader(text_table.device)
        self._utterances: dict[int, UtteranceState] = {}
        self._joined: list[tuple[int, int]] = []
        self._text_sent: dict[int, int] = {}

    def join(self, slot: int, utterance: UtteranceState, frames_made: int) -> None:
        """Assign a slot to an utterance.

        frames_made: frames that the utterance had before it was preempted; 0 for a new one.
        """
        self._utterances[slot] = utterance
        self._joined.append((slot, frames_made))
        self._text_sent[slot] = 0

    def leave(self, slot: int) -> None:
        """Free a slot."""
        self._utterances.pop(slot, None)
        self._text_sent.pop(slot, None)

    def fill(self, out: Tensor, step: StepRows) -> None:
        """Write the step's input rows into ``out`` [rows, hidden]."""
        self._upload_changes()
        if not step.prefill.any():
            out[: len(step.slots)] = self.decode_rows(step.device_slots)
            return
        decoding = np.flatnonzero(~step.prefill)
        ids, rows = self._prefill_ids(step)
        coded, codes, voiced, voices = _codes_and_voices(ids, rows)
        decode_at, decode_slots, prefill_at, text, codec, coded_at, codes_up, voiced_at, voices_up = self._upload(
            *(step.starts[decoding], step.slots[decoding]),
            *(np.concatenate(rows or [_NO_IDS]), _concatenated(ids, "text"), _concatenated(ids, "codec")),
            *(coded, codes, voiced, voices),
        )
        if len(decoding):
            out.index_copy_(0, decode_at, self.decode_rows(decode_slots))
        if len(prefill_at):
            out.index_copy_(0, prefill_at, self._prompt_rows(text, codec))
        if len(coded):
            out.index_add_(0, coded_at, self._codec.frame_rows(codes_up.view(len(coded), -1)))
        if len(voiced):
            embeddings = voices_up.view(torch.float32).view(len(voiced), -1)
            out.index_add_(0, voiced_at, embeddings.to(out.dtype))

    def decode_rows(self, slot_ids: Tensor) -> Tensor:
        """Return input rows of slots [n]: the embedding of the newest frame plus the row of its text id."""
        return self._slots.embedding[slot_ids] + self._text_table[self._slots.newest_text(slot_ids)]

    def _prefill_ids(self, step: StepRows) -> tuple[list[RowIds], list[NDArray[np.int64]]]:
        """Return the ids of the prefill rows of this step, and the input rows they go to."""
        ids, rows = [], []
        for request in np.flatnonzero(step.prefill):
            utterance = self._utterances.get(int(step.slots[request]))
            if utterance is None:
                continue
            first, count, start = int(step.positions[request]), int(step.counts[request]), int(step.starts[request])
            ids.append(utterance.rows(first, first + count, self._text_pad))
            rows.append(np.arange(start, start + count, dtype=np.int64))
        return ids, rows

    def _prompt_rows(self, text: Tensor, codec: Tensor) -> Tensor:
        nothing = len(self._text_table) - 1
        rows = self._text_table[text.masked_fill(text == NO_TOKEN, nothing)]
        absent = (codec == NO_TOKEN)[:, None]
        return rows + self._codec.id_rows(codec.clamp(0)).masked_fill(absent, 0)

    def _upload_changes(self) -> None:
        """Upload the utterances that joined and the text that arrived since the last step."""
        text_indices, text_ids = self._new_text()
        joined, self._joined = self._joined, []
        present = [(slot, made, self._utterances[slot]) for slot, made in joined if slot in self._utterances]
        if not present and not len(text_ids):
            return
        seen = [(slot, codes[0]) for slot, made, utterance in present for codes in utterance.frames[:made]]
        sampling = [utterance.sampling for _, _, utterance in present]
        slot_ids, made, seeds, codebook0, residual, seen_at, indices_up, ids_up = self._upload(
            np.array([slot for slot, _, _ in present], np.int64),
            np.array([made for _, made, _ in present], np.int64),
            np.array([each.seed for each in sampling], np.int64),
            _words([each.codebook0 for each in sampling]),
            _words([each.residual for each in sampling]),
            np.array(seen, np.int64).reshape(-1, 2).T,
            text_indices,
            text_ids,
        )
        if present:
            self._slots.reset(slot_ids, seeds, _params(codebook0), _params(residual), made)
        if seen:
            self._slots.codebook0_rules.remember(*seen_at.view(2, -1))
        if len(text_ids):
            self._slots.write_text(indices_up, ids_up)

    def _new_text(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the text that is not yet on the device: flat indices in ``Slots.text``, and the ids."""
        indices, ids = [_NO_IDS], [_NO_IDS]
        for slot, sent in list(self._text_sent.items()):
            utterance = self._utterances[slot]
            where = self._slots.text_indices(slot, sent, len(utterance.text) - sent)
            indices.append(where)
            ids.append(np.array(utterance.text[sent : sent + len(where)], np.int64))
            self._text_sent[slot] = len(utterance.text)
            if not utterance.text_open:
                del self._text_sent[slot]
        return np.concatenate(indices), np.concatenate(ids)


def _words(params: Sequence[CodebookParams]) -> NDArray[np.int64]:
    """Return sampling parameters as words for ``Uploader``: [columns, n], first the integers, then the floats."""
    ints, floats = host_columns(params)
    return np.concatenate((ints, floats.view(np.int64)))


def _params(words: Tensor) -> SamplingTensors:
    """The inverse of ``_words``, on the device."""
    ints, floats = words.view(len(INT_COLUMNS) + len(FLOAT_COLUMNS), -1).split((len(INT_COLUMNS), len(FLOAT_COLUMNS)))
    return SamplingTensors(ints, floats.view(torch.float64).float())


def _codes_and_voices(
    ids: list[RowIds], rows: list[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return rows with codes, the codes, rows with a voice, and the voices (two float32 values per int64 word)."""
    coded = [at[each.codes_row : each.codes_row + len(each.codes)] for each, at in zip(ids, rows, strict=True)]
    voiced = [at[each.voice_row] for each, at in zip(ids, rows, strict=True) if each.voice is not None]
    voices = [each.voice.view(np.int64) for each in ids if each.voice is not None]
    return (
        np.concatenate([_NO_IDS, *coded]),
        np.concatenate([_NO_IDS, *(each.codes.ravel() for each in ids)]),
        np.array(voiced, np.int64),
        np.concatenate([_NO_IDS, *voices]),
    )


def _concatenated(ids: list[RowIds], name: str) -> NDArray[np.int64]:
    return np.concatenate([_NO_IDS, *(getattr(each, name) for each in ids)])

"""Builds the input rows of a step on the device, and tracks the utterances they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.models.talker import CodecSide
from engine.prompt.builder import NO_TOKEN, Prompt
from engine.protocol.request import CODEBOOKS
from engine.talker.base import Sampling
from engine.talker.gpu_step.graphs import PaddedGraphs, few_sizes
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

    text: the text ids paired with its frames, as far as known; text_open: more text will come.
    """

    prompt: Prompt
    sampling: Sampling
    text: list[int]
    text_open: bool

    def append_text(self, ids: list[int], *, last: bool) -> None:
        """Append text ids; ``last`` closes the text. Raises ValueError when the text is closed."""
        if not self.text_open:
            raise ValueError("the text of this utterance is already complete")
        self.text.extend(ids)
        self.text_open = not last

    def rows(self, first: int, stop: int) -> RowIds:
        """Return the ids of the prompt rows ``first`` to ``stop``."""
        prompt = self.prompt
        codes, codes_row = _NO_CODES, 0
        if prompt.codes is not None:
            begin = max(first, prompt.codes_row)
            codes = prompt.codes[begin - prompt.codes_row : max(stop - prompt.codes_row, 0)]
            codes_row = begin - first
        has_voice = prompt.embedding is not None and first <= prompt.embedding_row < stop
        return RowIds(
            text=prompt.text[first:stop],
            codec=prompt.codec[first:stop],
            codes=codes,
            codes_row=codes_row,
            voice=prompt.embedding if has_voice else None,
            voice_row=prompt.embedding_row - first,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PromptRows:
    """Prompt rows of a step. All arrays are [n], one entry per utterance in prefill.

    slots: the utterance's slot. positions: the position of its first row. starts, counts: the first input row of the
    step that it fills, and how many.
    """

    slots: NDArray[np.int64]
    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]


class StepInputs:
    """Makes the input rows of a step.

    text_table: [text vocab + 1, hidden], one row per text id, then a row of zeros for NO_TOKEN. ``join`` and ``leave``
    change only host state.
    """

    def __init__(self, slots: Slots, text_table: Tensor, codec: CodecSide, upload: Uploader) -> None:
        self._slots, self._text_table, self._codec, self._upload = slots, text_table, codec, upload
        self._utterances: dict[int, UtteranceState] = {}
        self._joined: set[int] = set()
        self._text_sent: dict[int, int] = {}
        self._voice_rows = 0
        """Number of rows in which a step has left voices."""
        padding = [slots.padding_row, 0, *2 * _words([CodebookParams()])[:, 0].tolist()]
        self._reset = PaddedGraphs(self._reset_slots, few_sizes(slots.padding_row), padding, upload)

    def join(self, slot: int, utterance: UtteranceState) -> None:
        """Assign a slot to an utterance."""
        self._utterances[slot] = utterance
        self._joined.add(slot)
        self._text_sent[slot] = 0

    def leave(self, slot: int) -> None:
        """Free a slot."""
        self._utterances.pop(slot, None)
        self._joined.discard(slot)
        self._text_sent.pop(slot, None)

    def append_text(self) -> None:
        """Upload the text that has arrived for the utterances that have started. The next input rows need it."""
        self._send_text([slot for slot in self._text_sent if slot not in self._joined])

    def start_joined(self) -> None:
        """Start the utterances that have joined: reset their slots. Their first codes need it, their prompts do not."""
        joined, self._joined = list(self._joined), set()
        if not joined:
            return
        samplings = [self._utterances[slot].sampling for slot in joined]
        seeds = np.array([each.seed for each in samplings], np.int64)
        params = [*_words([each.codebook0 for each in samplings]), *_words([each.residual for each in samplings])]
        self._reset([np.array(joined), seeds, *params])
        self._send_text(joined)

    def prompt_ids(self, prompts: PromptRows, voices: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the text ids and the codec ids of the prompt rows [m], in order.

        Also writes what their voices add into ``voices`` [rows, hidden], which is zero elsewhere.
        """
        ids = [
            self._utterances[slot].rows(position, position + count)
            for slot, position, count in zip(
                prompts.slots.tolist(), prompts.positions.tolist(), prompts.counts.tolist(), strict=True
            )
        ]
        rows = [start + np.arange(len(each.text)) for start, each in zip(prompts.starts.tolist(), ids, strict=True)]
        self._write_voices(voices, *_codes_and_voices(ids, rows))
        return _concatenated(ids, "text"), _concatenated(ids, "codec")

    def rows(self, slot_ids: Tensor, text: Tensor, codec: Tensor, voices: Tensor) -> Tensor:
        """Return the input rows [n, hidden] of a step.

        slot_ids: int64 [n], the slot of each row that is decoded, ``padding_row`` for prompt rows. text, codec: int64
        [n], the ids of prompt rows, or NO_TOKEN. voices: [n, hidden], what voices add to prompt rows.
        """
        is_prompt = (slot_ids == self._slots.padding_row)[:, None]
        return torch.where(is_prompt, self._prompt_rows(text, codec) + voices, self.decode_rows(slot_ids))

    def decode_rows(self, slot_ids: Tensor) -> Tensor:
        """Return input rows of slots [n]: the embedding of the newest frame plus the row of its text id."""
        return self._slots.embedding[slot_ids] + self._text_table[self._slots.newest_text(slot_ids)]

    def _prompt_rows(self, text: Tensor, codec: Tensor) -> Tensor:
        nothing = len(self._text_table) - 1
        rows = self._text_table[text.masked_fill(text == NO_TOKEN, nothing)]
        absent = (codec == NO_TOKEN)[:, None]
        return rows + self._codec.id_rows(codec.clamp(0)).masked_fill(absent, 0)

    def _write_voices(
        self,
        out: Tensor,
        coded: NDArray[np.int64],
        codes: NDArray[np.int64],
        voiced: NDArray[np.int64],
        voices: NDArray[np.int64],
    ) -> None:
        """Write the rows of ``_codes_and_voices`` into ``out``, and clear those of earlier steps."""
        if self._voice_rows:
            out[: self._voice_rows].zero_()
        written = np.concatenate((coded, voiced))
        self._voice_rows = int(written.max(initial=-1)) + 1
        if not len(written):
            return
        coded_at, codes_up, voiced_at, voices_up = self._upload(coded, codes, voiced, voices)
        if len(coded):
            out.index_copy_(0, coded_at, self._codec.frame_rows(codes_up.view(len(coded), -1)))
        if len(voiced):
            embeddings = voices_up.view(torch.float32).view(len(voiced), -1)
            out.index_copy_(0, voiced_at, embeddings.to(out.dtype))

    def _reset_slots(self, block: Tensor) -> Tensor:
        slot_ids, seeds = block[:2]
        codebook0, residual = block[2:].chunk(2)
        self._slots.reset(slot_ids, seeds, _params(codebook0), _params(residual))
        return slot_ids

    def _send_text(self, slots: Iterable[int]) -> None:
        """Upload the text of slots that is not yet on the device."""
        indices, ids = [_NO_IDS], [_NO_IDS]
        for slot in slots:
            utterance, sent = self._utterances[slot], self._text_sent[slot]
            where = self._slots.text_indices(slot, sent, len(utterance.text) - sent)
            indices.append(where)
            ids.append(np.array(utterance.text[sent : sent + len(where)], np.int64))
            self._text_sent[slot] = len(utterance.text)
            if not utterance.text_open:
                del self._text_sent[slot]
        if any(map(len, ids)):
            indices_up, ids_up = self._upload(np.concatenate(indices), np.concatenate(ids))
            self._slots.write_text(indices_up, ids_up)


def _words(params: Sequence[CodebookParams]) -> NDArray[np.int64]:
    """Return sampling parameters as words for ``Uploader``: [columns, n], first the integers, then the floats."""
    ints, floats = host_columns(params)
    return np.concatenate((ints, floats.view(np.int64)))


def _params(words: Tensor) -> SamplingTensors:
    """The inverse of ``_words``, on the device."""
    ints, floats = words.split((len(INT_COLUMNS), len(FLOAT_COLUMNS)))
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

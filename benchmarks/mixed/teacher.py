"""Checks sampled codes by teacher forcing: whether each code is right, given the codes sampled before it.

The native talker computes the distribution of every code from the prompt and the codes that were really sampled
before. The uniform number in [0, 1) that selected the code is also known: it is a function of seed, frame and codebook.
The slip of a code is the distance of that number from the code's interval in the cumulative distribution, 0 inside the
interval. Rounding causes small slips of a few codes. Codes that were sampled for another prompt, another history or
another seed nearly all have a slip, a third on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.gpu.fp8_checkpoint import fp8_matrices
from benchmarks.mixed.teacher_forcing import TeacherForcedPredictor, full_attention
from engine.checkpoint.folder import Checkpoint
from engine.models.talker import TalkerModel
from engine.models.weights import Weights
from engine.prompt.builder import build_prompt
from engine.protocol.request import CODEBOOKS, SpeechRequest
from engine.talker.base import Sampling
from engine.talker.requests import resolve
from engine.talker.sampling import Codebook0Rules, Sampler, uniforms
from engine.talker.sampling_params import CodebookParams

_BATCH_FRAMES = 1024
"""Frames whose codebooks 1 to 15 are checked in one batch."""


class Teacher:
    """Computes slips with a checkpoint's native talker in float32.

    positions: maximum length of an utterance, prompt plus frames.
    fp8: use the fp8-rounded matrices of ``talker.vllm.fp8_predictor``.
    """

    @torch.inference_mode()
    def __init__(self, checkpoint: Checkpoint, device: torch.device, *, positions: int, fp8: bool = False) -> None:
        tensors = checkpoint.tensors("talker.")
        weights = Weights(tensors | fp8_matrices(tensors) if fp8 else tensors, device, torch.float32)
        self._checkpoint, self._device = checkpoint, device
        self._shape = checkpoint.model.talker
        self._model = TalkerModel(weights, self._shape, positions=positions)
        tables = self._model.code_tables
        residual = weights.under("code_predictor.")
        self._predictor = TeacherForcedPredictor(residual, self._shape, code_tables=tables, rows=1)

    @torch.inference_mode()
    def slips(self, request: SpeechRequest, utterances: Sequence[NDArray[np.int16]]) -> list[NDArray[np.float64]]:
        """Return the slips [frames, 16] of each of ``utterances``, codes [frames, 16] generated for ``request``.

        A live request must contain the complete text.
        """
        sampling = resolve(request.sampling, self._checkpoint.generation)
        codes = [torch.from_numpy(each.astype(np.int64)).to(self._device) for each in utterances]
        states = self._states(request, codes)
        counts = [len(each) for each in codes]
        frames = torch.cat([torch.arange(count, device=self._device) for count in counts])
        random_numbers = uniforms(torch.full_like(frames, sampling.seed), frames, CODEBOOKS)
        hidden, all_codes = torch.cat(states), torch.cat(codes)
        first = _slips(self._first(hidden, codes, frames, sampling), all_codes[:, 0], random_numbers[:, 0])
        residual = self._residual(hidden, all_codes, random_numbers, sampling.residual)
        slips = torch.cat((first[:, None], residual), 1).cpu().numpy()
        return list(np.split(slips, np.cumsum(counts)[:-1]))

    def _states(self, request: SpeechRequest, codes: Sequence[Tensor]) -> list[Tensor]:
        """Return the talker's hidden states [frames, hidden] that each utterance's frames are sampled from."""
        layout = "streaming" if request.live else request.text_layout
        complete = replace(request, live=False, text_layout=layout)
        checkpoint = self._checkpoint
        prompt = build_prompt(complete, checkpoint.model, checkpoint.tokenizer, checkpoint.profile.text_layout)
        prompt_rows = self._model.prompt_rows(prompt)
        longest = max(len(each) for each in codes)
        pad = self._checkpoint.model.text_ids.tts_pad
        text_rows = self._model.text_rows([*prompt.trailing, *[pad] * longest][:longest])
        length = len(prompt_rows) + longest
        rows = prompt_rows.new_zeros(len(codes), length, prompt_rows.shape[1])
        rows[:, : len(prompt_rows)] = prompt_rows
        for row, each in zip(rows, codes, strict=True):
            row[len(prompt_rows) : len(prompt_rows) + len(each)] = self._model.frame_rows(each) + text_rows[: len(each)]
        positions = torch.arange(length, device=self._device).repeat(len(codes))
        hidden = self._model(rows.flatten(0, 1), positions, full_attention(len(codes))).view(len(codes), length, -1)
        begin = len(prompt_rows) - 1
        return [state[begin : begin + len(each)] for state, each in zip(hidden, codes, strict=True)]

    def _first(self, hidden: Tensor, codes: Sequence[Tensor], frames: Tensor, sampling: Sampling) -> Tensor:
        """Return the sampling distributions [rows, vocab] of codebook 0 of every frame."""
        ids = self._shape.ids
        rules = Codebook0Rules(self._shape.vocab, ids.eos, len(frames), self._device)
        begin = 0
        for each in codes:
            earlier, later = torch.triu_indices(len(each), len(each), 1, device=self._device)
            rules.remember(begin + later, each[earlier, 0])
            begin += len(each)
        penalty = torch.full((len(frames), 1), sampling.codebook0.repetition_penalty, device=self._device)
        rows = torch.arange(len(frames), device=self._device)
        logits = rules.apply(self._model.logits(hidden), rows, penalty, frames)
        return Sampler.of([sampling.codebook0] * len(frames), self._device).probabilities(logits)

    def _residual(self, hidden: Tensor, codes: Tensor, chances: Tensor, params: CodebookParams) -> Tensor:
        """Return the slips [rows, 15] of codebooks 1 to 15."""
        found = []
        for parts in zip(*(each.split(_BATCH_FRAMES) for each in (hidden, codes, chances)), strict=True):
            states, given, numbers = parts
            sampler = Sampler.of([params] * given[:, 1:].numel(), self._device)
            likely = sampler.probabilities(self._predictor.logits(states, given).flatten(0, 1))
            found.append(_slips(likely, given[:, 1:].flatten(), numbers[:, 1:].flatten()).view(len(given), -1))
        return torch.cat(found)


def _slips(probabilities: Tensor, codes: Tensor, numbers: Tensor) -> Tensor:
    """Return the distance of each number from its code's interval, float64 [rows]."""
    edges = probabilities.cumsum(-1, dtype=torch.float64)
    total = edges[:, -1]
    above = edges.gather(1, codes[:, None])[:, 0]
    below = above - probabilities.gather(1, codes[:, None])[:, 0]
    targets = numbers * total
    return torch.maximum(below - targets, targets - above).clamp_(min=0) / total

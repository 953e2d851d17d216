"""The code predictor for training (SPEC 5): all sixteen positions of a frame at once, with teacher forcing."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import TalkerArchitecture
from scripts.train_pocket.talker.lookup import lookup
from scripts.train_pocket.talker.qwen3 import Stack, linear

FRAMES_PER_ROW = 8
"""Frames that share a row of attention, with a block-diagonal mask. Sixteen positions alone do not fill GPU tiles."""


class PredictorStack(Stack):
    """The decoder layers and the embeddings of codebooks 1 to 15, which have the talker's width."""

    def __init__(self, shape: TalkerArchitecture, *, dropout: float, embedding: float) -> None:
        books = shape.codebooks
        super().__init__(shape.predictor.transformer, positions=books, dropout=dropout, attend=self._within_frames)
        self.codec_embedding = nn.ModuleList(
            nn.Embedding(shape.predictor.vocab, shape.transformer.hidden) for _ in range(books - 1)
        )
        for table in self.codec_embedding.parameters():
            nn.init.normal_(table, std=embedding)
        frame = torch.arange(FRAMES_PER_ROW * books) // books
        visible = (frame[:, None] == frame).tril()
        self.register_buffer("_mask", torch.zeros(visible.shape).masked_fill(~visible, float("-inf")), persistent=False)

    def _within_frames(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mask = self.get_buffer("_mask").to(query.dtype)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, enable_gqa=query.shape[1] != key.shape[1]
        )


class CodePredictor(nn.Module):
    """Predicts codebooks 1 to 15 of frames with teacher forcing."""

    def __init__(self, shape: TalkerArchitecture, *, dropout: float, embedding: float) -> None:
        super().__init__()
        inner, outer = shape.predictor.transformer.hidden, shape.transformer.hidden
        self._books = shape.codebooks
        self.model = PredictorStack(shape, dropout=dropout, embedding=embedding)
        self.lm_head = nn.ModuleList(
            nn.Linear(inner, shape.predictor.vocab, bias=False) for _ in range(shape.codebooks - 1)
        )
        for head in self.lm_head.parameters():
            nn.init.normal_(head, std=0.02)
        self.small_to_mtp_projection = nn.Linear(outer, inner)
        nn.init.normal_(self.small_to_mtp_projection.weight, std=1 / sqrt(outer))
        nn.init.zeros_(self.small_to_mtp_projection.bias)

    def forward(self, hidden: Tensor, codes: Tensor, tables: Sequence[Tensor]) -> Tensor:
        """Return the logits [15, n, vocab] for talker states [n, hidden], codes [n, 16] and the embedding tables.

        n must be a multiple of ``FRAMES_PER_ROW``. The tables are projected before the lookup, because they have fewer
        rows than the batch.
        """
        frames, vocab = len(codes), tables[1].shape[0]
        projected = self._project(torch.cat([table[:vocab] for table in tables[:-1]]))
        offsets = torch.arange(self._books - 1, device=codes.device) * vocab
        embedded = lookup(projected.to(hidden.dtype), codes[:, :-1] + offsets)
        x = torch.cat((self._project(hidden)[:, None], embedded), 1)
        positions = torch.arange(self._books, device=codes.device).repeat(FRAMES_PER_ROW)
        states = self.model(x.view(-1, len(positions), x.shape[-1]), positions)
        states = states.view(frames, self._books, -1)[:, 1:].transpose(0, 1)
        heads = torch.stack(list(self.lm_head.parameters())).to(states.dtype)
        return torch.bmm(states, heads.transpose(1, 2))

    def _project(self, x: Tensor) -> Tensor:
        projection = self.small_to_mtp_projection
        return linear(x, projection.weight, projection.bias)

"""Talker and code predictor for training. Parameter names are those of model.safetensors without ``talker.``."""

from __future__ import annotations

from itertools import accumulate
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import TalkerArchitecture
from scripts.train_pocket.talker.lookup import lookup
from scripts.train_pocket.talker.predictor import CodePredictor
from scripts.train_pocket.talker.qwen3 import Stack, linear

_EMBEDDING_STD = 0.1
"""Standard deviation of the embeddings. The sum of a frame's sixteen is then as large as a layer's initial output."""
_HEAD_STD = 0.02


class TextProjection(nn.Module):
    """fc2(silu(fc1(x))), with biases (SPEC 2)."""

    def __init__(self, text_hidden: int, hidden: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(text_hidden, text_hidden)
        self.linear_fc2 = nn.Linear(text_hidden, hidden)
        nn.init.normal_(self.linear_fc1.weight, std=1 / sqrt(text_hidden))
        nn.init.normal_(self.linear_fc2.weight, std=1 / sqrt(text_hidden))
        nn.init.zeros_(self.linear_fc1.bias)
        nn.init.zeros_(self.linear_fc2.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., text_hidden] to [..., hidden]."""
        inner = F.silu(linear(x, self.linear_fc1.weight, self.linear_fc1.bias))
        return linear(inner, self.linear_fc2.weight, self.linear_fc2.bias)


class TalkerStack(Stack):
    """The decoder layers and the embeddings, which have the same prefix in the published names."""

    def __init__(self, shape: TalkerArchitecture, *, positions: int, dropout: float) -> None:
        super().__init__(shape.transformer, positions=positions, dropout=dropout, attend=_causal)
        self.text_embedding = nn.Embedding(shape.text_vocab, shape.text_hidden)
        self.codec_embedding = nn.Embedding(shape.vocab, shape.transformer.hidden)
        nn.init.normal_(self.text_embedding.weight)
        nn.init.normal_(self.codec_embedding.weight, std=_EMBEDDING_STD)


class TrainableTalker(nn.Module):
    """Maps rows of ids to hidden states and logits.

    positions: maximum length of prompt and frames. dropout: of the layers' branches. dtype: of the computation;
    parameters are float32.
    """

    def __init__(self, shape: TalkerArchitecture, *, positions: int, dropout: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.model = TalkerStack(shape, positions=positions, dropout=dropout)
        self.text_projection = TextProjection(shape.text_hidden, shape.transformer.hidden)
        self.codec_head = nn.Linear(shape.transformer.hidden, shape.vocab, bias=False)
        nn.init.normal_(self.codec_head.weight, std=_HEAD_STD)
        self.code_predictor = CodePredictor(shape, dropout=dropout, embedding=_EMBEDDING_STD)
        sizes = [shape.vocab] + [shape.predictor.vocab] * (shape.codebooks - 1)
        self._empty_row = sum(sizes)
        self.register_buffer("_offsets", torch.tensor([0, *accumulate(sizes[:-1])]), persistent=False)

    def hidden(self, text: Tensor, codes: Tensor, xvectors: Tensor, xvector_rows: Tensor) -> Tensor:
        """Return the hidden states after the final norm [B, L, hidden] of right-padded rows (SPEC 3).

        text: text ids [B, L]. codes: codec ids [B, L, 16], tags in the first column. In both, -1 adds nothing.
        xvectors: [B, hidden], added to the rows ``xvector_rows`` [B]; zeros for none.
        """
        rows = lookup(self._text_table(), _or_last(text, self.shape.text_vocab))
        table = F.pad(torch.cat(self._code_tables()), (0, 0, 0, 1)).to(self.dtype)
        ids = torch.where(codes < 0, self._empty_row, codes + self.get_buffer("_offsets"))
        rows = rows + lookup(table, ids).sum(2, dtype=rows.dtype)
        has_xvector = torch.arange(rows.shape[1], device=rows.device) == xvector_rows[:, None]
        rows = rows + has_xvector[..., None] * xvectors[:, None]
        hidden: Tensor = self.model(rows.to(self.dtype), torch.arange(rows.shape[1], device=rows.device))
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits [n, codes + 1] of codebook 0. The last one is eos; other special ids are never sampled."""
        weights = torch.cat((self.codec_head.weight[: self.codes], self.codec_head.weight[self.shape.ids.eos, None]))
        return linear(hidden, weights)

    def book_logits(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Return the logits [15, n, codes] of codebooks 1 to 15. hidden: [n, hidden]. codes: true codes [n, 16]."""
        logits: Tensor = self.code_predictor(hidden, codes, self._code_tables())
        return logits

    @property
    def codes(self) -> int:
        """Number of codes of a codebook."""
        return self.shape.predictor.vocab

    def _text_table(self) -> Tensor:
        """Return the projected row of each text id, and a row of zeros. They are fewer than the rows of a batch."""
        return F.pad(self.text_projection(self.model.text_embedding.weight), (0, 0, 0, 1))

    def _code_tables(self) -> list[Tensor]:
        return [self.model.codec_embedding.weight, *self.code_predictor.model.codec_embedding.parameters()]


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=query.shape[1] != key.shape[1])


def _or_last(ids: Tensor, last: int) -> Tensor:
    return torch.where(ids < 0, last, ids)

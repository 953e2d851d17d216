"""The talker and the code predictor for training: parameters named as in model.safetensors, less ``talker.``."""

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

_EMBEDDING = 0.1
"""Deviation of the embeddings: the sum of a frame's sixteen is then about as large as a layer's first output."""
_HEAD = 0.02


class TextProjection(nn.Module):
    """fc2(silu(fc1(x))), both with bias (SPEC 2)."""

    def __init__(self, text_hidden: int, hidden: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(text_hidden, text_hidden)
        self.linear_fc2 = nn.Linear(text_hidden, hidden)
        nn.init.normal_(self.linear_fc1.weight, std=1 / sqrt(text_hidden))
        nn.init.normal_(self.linear_fc2.weight, std=1 / sqrt(text_hidden))
        nn.init.zeros_(self.linear_fc1.bias)
        nn.init.zeros_(self.linear_fc2.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., text_hidden] -> [..., hidden]."""
        inner = F.silu(linear(x, self.linear_fc1.weight, self.linear_fc1.bias))
        return linear(inner, self.linear_fc2.weight, self.linear_fc2.bias)


class TalkerStack(Stack):
    """The decoder layers with the embeddings that the published names put beside them."""

    def __init__(self, shape: TalkerArchitecture, *, positions: int, dropout: float) -> None:
        super().__init__(shape.transformer, positions=positions, dropout=dropout, attend=_causal)
        self.text_embedding = nn.Embedding(shape.text_vocab, shape.text_hidden)
        self.codec_embedding = nn.Embedding(shape.vocab, shape.transformer.hidden)
        nn.init.normal_(self.text_embedding.weight)
        nn.init.normal_(self.codec_embedding.weight, std=_EMBEDDING)


class TrainableTalker(nn.Module):
    """Rows of ids in, hidden states and logits out.

    positions: the longest utterance, prompt and frames; dropout: of the layers' branches; dtype: what rows are
    computed in, while parameters stay float32.
    """

    def __init__(self, shape: TalkerArchitecture, *, positions: int, dropout: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.model = TalkerStack(shape, positions=positions, dropout=dropout)
        self.text_projection = TextProjection(shape.text_hidden, shape.transformer.hidden)
        self.codec_head = nn.Linear(shape.transformer.hidden, shape.vocab, bias=False)
        nn.init.normal_(self.codec_head.weight, std=_HEAD)
        self.code_predictor = CodePredictor(shape, dropout=dropout, embedding=_EMBEDDING)
        sizes = [shape.vocab] + [shape.predictor.vocab] * (shape.codebooks - 1)
        self._nothing = sum(sizes)
        self.register_buffer("_offsets", torch.tensor([0, *accumulate(sizes[:-1])]), persistent=False)

    def hidden(self, text: Tensor, codes: Tensor, xvectors: Tensor, xvector_rows: Tensor) -> Tensor:
        """Hidden states after the final norm [B, L, hidden] of right-padded rows (SPEC 3).

        text [B, L]: ids of the text side; codes [B, L, 16]: ids of the codec side, a tag's in the first column; -1 in
        either adds nothing. xvectors [B, hidden] are added to the rows ``xvector_rows`` [B]; zeros where there is none.
        """
        rows = lookup(self._text_table(), _or_last(text, self.shape.text_vocab))
        table = F.pad(torch.cat(self._code_tables()), (0, 0, 0, 1)).to(self.dtype)
        ids = torch.where(codes < 0, self._nothing, codes + self.get_buffer("_offsets"))
        rows = rows + lookup(table, ids).sum(2, dtype=rows.dtype)
        marked = torch.arange(rows.shape[1], device=rows.device) == xvector_rows[:, None]
        rows = rows + marked[..., None] * xvectors[:, None]
        hidden: Tensor = self.model(rows.to(self.dtype), torch.arange(rows.shape[1], device=rows.device))
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, codes + 1] of codebook 0, of which the last is eos; the other special ids cannot be drawn."""
        drawn = torch.cat((self.codec_head.weight[: self.codes], self.codec_head.weight[self.shape.ids.eos, None]))
        return linear(hidden, drawn)

    def book_logits(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Logits [15, n, codes] of codebooks 1 to 15, of states [n, hidden] and the frames' true codes [n, 16]."""
        logits: Tensor = self.code_predictor(hidden, codes, self._code_tables())
        return logits

    @property
    def codes(self) -> int:
        """Codes of a codebook."""
        return self.shape.predictor.vocab

    def _text_table(self) -> Tensor:
        """Every text id's row, and a row of zeros: far fewer than the rows of a batch."""
        return F.pad(self.text_projection(self.model.text_embedding.weight), (0, 0, 0, 1))

    def _code_tables(self) -> list[Tensor]:
        return [self.model.codec_embedding.weight, *self.code_predictor.model.codec_embedding.parameters()]


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=query.shape[1] != key.shape[1])


def _or_last(ids: Tensor, last: int) -> Tensor:
    return torch.where(ids < 0, last, ids)

"""The talker: maps prompt rows and frames to logits of codebook 0 (SPEC 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture
from engine.kernels.linear import Linear
from engine.models.qwen3 import Attention, Qwen3Stack
from engine.models.weights import Weights
from engine.prompt.builder import Prompt


class Table(Protocol):
    """Embeddings."""

    def __len__(self) -> int:
        """Return the number of ids."""

    def rows(self, ids: Tensor | slice) -> Tensor:
        """Return the embeddings [n, width] of ids [n]."""


class ExactTable:
    """Embeddings [ids, width] as they are in the checkpoint. dtype: of the rows."""

    def __init__(self, table: Tensor, dtype: torch.dtype) -> None:
        self._table, self._dtype = table, dtype

    def __len__(self) -> int:
        return len(self._table)

    def rows(self, ids: Tensor | slice) -> Tensor:
        """Return the embeddings [n, width] of ids [n]."""
        return self._table[ids].to(self._dtype)


MakeTable = Callable[[Weights, str], Table]
"""Makes the table of an embedding: ``exact_table``, or a quantized one.

(weights, name without ``.weight``) -> table."""


def exact_table(weights: Weights, name: str) -> Table:
    """Return the table of an embedding as it is in the checkpoint."""
    return ExactTable(weights.stored(f"{name}.weight"), weights.dtype)


class TextSide:
    """Text embedding and projection: fc2(silu(fc1(embedding))). weights: the checkpoint's ``talker.``."""

    def __init__(self, weights: Weights, table: MakeTable = exact_table) -> None:
        self._embedding = table(weights, "model.text_embedding")
        projection = weights.under("text_projection.")
        self._fc1 = Linear(projection["linear_fc1.weight"], projection["linear_fc1.bias"])
        self._fc2 = Linear(projection["linear_fc2.weight"], projection["linear_fc2.bias"])

    @property
    def vocab(self) -> int:
        """Number of text ids."""
        return len(self._embedding)

    def rows(self, ids: Tensor | slice) -> Tensor:
        """Return the input rows [n, hidden] of text ids [n]."""
        return self._fc2(F.silu(self._fc1(self._embedding.rows(ids))))


class CodecSide:
    """Embeddings of codes. weights: the checkpoint's ``talker.``.

    tables: the embeddings of codebooks 0 to 15, [codes, hidden] each. Codebook 0's table also has the codec-side ids.
    table: all tables, concatenated. offsets: int64 [16], the first row of each table in ``table``.
    """

    def __init__(self, weights: Weights, architecture: TalkerArchitecture) -> None:
        residual = [f"code_predictor.model.codec_embedding.{book}.weight" for book in range(architecture.codebooks - 1)]
        tables = [weights[name] for name in ["model.codec_embedding.weight", *residual]]
        sizes = [len(table) for table in tables]
        self.table = torch.cat(tables)
        self.offsets = torch.tensor([0, *accumulate(sizes[:-1])], device=weights.device)
        self.tables = self.table.split(sizes)

    def id_rows(self, ids: Tensor) -> Tensor:
        """Return the input rows [n, hidden] of codec-side ids [n]."""
        return self.table[ids]

    def frame_rows(self, codes: Tensor) -> Tensor:
        """Return the input rows [n, hidden] of frames [n, 16]: the sum of the embeddings of a frame's codes."""
        return self.table[codes + self.offsets].sum(1)


class TalkerModel:
    """Text and codec embeddings, the decoder layers, and the head of codebook 0.

    Reads its tensors in the order of the file.

    weights: the checkpoint's ``talker.``. positions: maximum length of an utterance, prompt and frames together.
    codec: the embeddings of codes, if they have been read already. layers: whether to read the decoder layers, without
    which a model cannot be called. table: makes the text embedding. code_tables: the embeddings of codebooks 0 to 15,
    [codes, hidden] each.
    """

    def __init__(
        self,
        weights: Weights,
        architecture: TalkerArchitecture,
        *,
        positions: int,
        codec: CodecSide | None = None,
        layers: bool = True,
        table: MakeTable = exact_table,
    ) -> None:
        self.architecture = architecture
        self.device, self.dtype = weights.device, weights.dtype
        self._codec = codec or CodecSide(weights, architecture)
        self.code_tables = self._codec.tables
        self._head = Linear(weights["codec_head.weight"])
        self.stack = Qwen3Stack(weights.under("model."), architecture.transformer, positions) if layers else None
        self._text = TextSide(weights, table)

    def __call__(self, x: Tensor, positions: Tensor | slice, attention: Attention) -> Tensor:
        """Map input rows [rows, hidden] to hidden states after the final norm, [rows, hidden]."""
        assert self.stack is not None
        return self.stack(x, positions, attention)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return codebook 0's logits, float32 [rows, vocab], of hidden states [rows, hidden]."""
        return self._head(hidden).float()

    def text_rows(self, ids: list[int]) -> Tensor:
        """Return the text-side rows [n, hidden] of text ids."""
        if not ids:
            return torch.empty(0, self.architecture.transformer.hidden, device=self.device, dtype=self.dtype)
        return self._text.rows(torch.tensor(ids, device=self.device))

    def frame_rows(self, codes: Tensor) -> Tensor:
        """Return the input rows [n, hidden] of frames [n, 16]: the sum of the embeddings of a frame's codes."""
        return self._codec.frame_rows(codes)

    def prompt_rows(self, prompt: Prompt) -> Tensor:
        """Return the prefill rows [P, hidden] of a prompt: text side plus codec side (SPEC 3)."""
        rows = torch.zeros(len(prompt.text), self.architecture.transformer.hidden, device=self.device)
        rows = rows.to(self.dtype)
        has_text = torch.from_numpy(prompt.text >= 0).to(self.device)
        rows[has_text] = self.text_rows([int(token) for token in prompt.text if token >= 0])
        has_codec_id = torch.from_numpy(prompt.codec >= 0).to(self.device)
        rows[has_codec_id] += self._codec.id_rows(torch.from_numpy(prompt.codec).to(self.device)[has_codec_id])
        if prompt.embedding is not None:
            rows[prompt.embedding_row] += torch.from_numpy(prompt.embedding).to(self.device, self.dtype)
        if prompt.codes is not None:
            frames = self.frame_rows(torch.from_numpy(prompt.codes).to(self.device))
            rows[prompt.codes_row : prompt.codes_row + len(frames)] += frames
        return rows

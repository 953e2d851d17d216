"""The talker's input rows, made of text ids and codes (SPEC 2 and 3)."""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.architecture import TalkerArchitecture
from engine.kernels.linear import Linear
from engine.models.weights import Weights


class TextSide:
    """Rows of text ids: fc2(silu(fc1(embedding))). weights: the checkpoint's ``talker.``."""

    def __init__(self, weights: Weights) -> None:
        self._dtype = weights.dtype
        self._embedding = weights.stored("model.text_embedding.weight")
        projection = weights.under("text_projection.")
        self._fc1 = Linear(projection["linear_fc1.weight"], projection["linear_fc1.bias"])
        self._fc2 = Linear(projection["linear_fc2.weight"], projection["linear_fc2.bias"])

    @property
    def vocab(self) -> int:
        """Text ids there are."""
        return len(self._embedding)

    def rows(self, ids: Tensor | slice) -> Tensor:
        """[n, hidden] of text ids [n]."""
        embedded = self._embedding[ids].to(self._dtype)
        return self._fc2(F.silu(self._fc1(embedded)))


class CodecSide:
    """Rows of codes. weights: the checkpoint's ``talker.``.

    tables: the embeddings of codebooks 0 to 15, [codes, hidden] each. Codebook 0's has the codec-side ids too.
    table: all of them, one after another; offsets int64 [16]: where each begins.
    """

    def __init__(self, weights: Weights, architecture: TalkerArchitecture) -> None:
        residual = [f"code_predictor.model.codec_embedding.{book}.weight" for book in range(architecture.codebooks - 1)]
        tables = [weights[name] for name in ["model.codec_embedding.weight", *residual]]
        sizes = [len(table) for table in tables]
        self.table = torch.cat(tables)
        self.offsets = torch.tensor([0, *accumulate(sizes[:-1])], device=weights.device)
        self.tables = self.table.split(sizes)

    def id_rows(self, ids: Tensor) -> Tensor:
        """[n, hidden] of codec-side ids [n]."""
        return self.table[ids]

    def frame_rows(self, codes: Tensor) -> Tensor:
        """[n, hidden] of frames' codes [n, 16]: the sum of the codes' embeddings."""
        return self.table[codes + self.offsets].sum(1)

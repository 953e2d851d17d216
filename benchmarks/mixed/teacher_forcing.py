"""Teacher forcing: the logits of known codes, all positions in one pass. The engine itself only generates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.code_predictor import CodePredictor, PlainFrameLayers
from engine.models.qwen3 import Attention


def full_attention(count: int) -> Attention:
    """Return causal attention over ``count`` complete utterances of equal length that do not attend to each other."""

    def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (each.unflatten(0, (count, -1)).transpose(1, 2) for each in (query, key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).flatten(0, 1).flatten(1)

    return attention


class TeacherForcedPredictor(CodePredictor):
    """A code predictor that scores existing codes."""

    def logits(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Return the logits of codebooks 1 and up for known ``codes`` [rows, books]: float32 [rows, books - 1, vocab].

        hidden: talker states [rows, talker hidden].
        """
        rows = len(codes)
        known = [table[codes[:, book]] for book, table in enumerate(self._inputs)]
        x = torch.stack([self._project(hidden), *known], 1).flatten(0, 1)
        positions = torch.arange(len(known) + 1, device=hidden.device).repeat(rows)
        assert isinstance(self._layers, PlainFrameLayers)
        states = self._layers.stack(x, positions, full_attention(rows)).unflatten(0, (rows, -1))
        return torch.stack([head(states[:, book]).float() for book, head in enumerate(self._layers.heads, 1)], 1)

"""Drawing codes with parameters that are on the device: the shapes are fixed, whatever the rows ask for."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class RowDraws(NamedTuple):
    """How each row draws. temperature, top_p: float32 [rows]; 0 is greedy, 1 is off. top_k: int64 [rows]; 0 is off."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor


def draw(logits: Tensor, draws: RowDraws, uniform: Tensor) -> Tensor:
    """ids int64 [rows] from float32 logits [rows, vocab], by inverse transform of ``uniform`` float64 [rows].

    The result is that of ``engine.talker.sampling.Sampler``, which knows its rows' parameters on the host and leaves
    out what they do not need.
    """
    greedy = draws.temperature == 0
    scores = logits / draws.temperature.masked_fill(greedy, 1.0)[:, None]
    distribution = torch.softmax(_keep(scores, draws), -1).cumsum(-1, dtype=torch.float64)
    targets = uniform[:, None] * distribution[:, -1:]
    drawn = torch.searchsorted(distribution, targets, right=True).squeeze(-1).clamp_(max=logits.shape[-1] - 1)
    return torch.where(greedy, logits.argmax(-1), drawn)


def _keep(scores: Tensor, draws: RowDraws) -> Tensor:
    """Scores with -inf where nothing may be drawn: top-k keeping ties, then top-p, of one sort."""
    vocab = scores.shape[-1]
    ordered, ids = torch.sort(scores, dim=-1, stable=True)
    rank = (vocab - draws.top_k.masked_fill(draws.top_k == 0, vocab)).clamp_(0, vocab - 1)
    low = ordered < ordered.gather(-1, rank[:, None])
    mass = torch.softmax(ordered.masked_fill(low, float("-inf")), -1).cumsum(-1)
    tail = (mass <= 1 - draws.top_p[:, None]) & (draws.top_p < 1)[:, None]
    tail[:, -1:].zero_()
    return scores.masked_fill(torch.zeros_like(low).scatter(-1, ids, low | tail), float("-inf"))

"""From logits to codes, with each row's own sampling parameters and counter-based random numbers (SPEC 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX2 = 0x94D049BB133111EB - (1 << 64)


def uniforms(seeds: Tensor, frames: Tensor, codebooks: int) -> Tensor:
    """float64 [rows, codebooks] in [0, 1) for int64 seeds [rows] at frame numbers [rows]."""
    books = torch.arange(1, codebooks + 1, device=seeds.device)
    counters = frames[:, None] * codebooks + books
    bits = _mix(_mix(seeds)[:, None] + counters * _GOLDEN)
    return _shift(bits, 32).double() * 2.0**-32


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _MIX1
    z = (z ^ _shift(z, 27)) * _MIX2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    """Logical right shift: torch's is arithmetic."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


@dataclass(frozen=True, slots=True)
class Draws:
    """How one of the two models' codes are drawn. temperature 0 is greedy; top_k 0 and top_p 1 are off."""

    temperature: float
    top_k: int
    top_p: float


class Sampler:
    """Draws one code a row from float32 logits [rows, vocab].

    Rows are independent: what one draws does not depend on what the others ask for.
    """

    def __init__(self, draws: Sequence[Draws], device: torch.device) -> None:
        def column(values: list[float]) -> Tensor:
            return torch.tensor(values, device=device)[:, None]

        greedy = [draw.temperature == 0 for draw in draws]
        self._all_greedy = all(greedy)
        self._greedy = torch.tensor(greedy, device=device) if any(greedy) else None
        self._temperature = column([draw.temperature or 1.0 for draw in draws])
        self._top_k = [draw.top_k for draw in draws]
        self._largest_k = max(self._top_k)
        self._one_k = self._largest_k if len(set(self._top_k)) == 1 else None
        self._ranks = torch.tensor(self._top_k, device=device)[:, None]
        self._cuts_tail = any(draw.top_p < 1 for draw in draws)
        self._top_p = column([draw.top_p for draw in draws])

    def __call__(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """ids int64 [rows], by inverse transform of ``uniform`` float64 [rows] in [0, 1)."""
        if self._all_greedy:
            return logits.argmax(-1)
        distribution = self.probabilities(logits).cumsum(-1, dtype=torch.float64)
        targets = uniform[:, None] * distribution[:, -1:]
        drawn = torch.searchsorted(distribution, targets, right=True).squeeze(-1).clamp_(max=logits.shape[-1] - 1)
        return drawn if self._greedy is None else torch.where(self._greedy, logits.argmax(-1), drawn)

    def probabilities(self, logits: Tensor) -> Tensor:
        """What is drawn from, float32 [rows, vocab]: temperature, then top-k keeping ties, then top-p."""
        scores = logits / self._temperature
        if self._largest_k:
            scores = self._keep_top_k(scores)
        if self._cuts_tail:
            scores = self._keep_top_p(scores)
        return torch.softmax(scores, -1)

    def _keep_top_k(self, scores: Tensor) -> Tensor:
        top = torch.topk(scores, min(self._largest_k, scores.shape[-1])).values
        return scores.masked_fill(scores < self._threshold(top), float("-inf"))

    def _threshold(self, top: Tensor) -> Tensor:
        """Each row's least score that may be drawn [rows, 1], of its largest scores in order."""
        if self._one_k is not None:
            return top[:, -1:]
        threshold = top.gather(-1, (self._ranks.clamp(1, top.shape[-1]) - 1).expand(len(top), 1))
        return threshold.masked_fill(self._ranks == 0, float("-inf"))

    def _keep_top_p(self, scores: Tensor) -> Tensor:
        """The smallest set of likeliest ids whose mass reaches p, never empty."""
        ordered, ids = torch.sort(scores, dim=-1, stable=True)
        tail = torch.softmax(ordered, -1).cumsum(-1) <= 1 - self._top_p
        tail[:, -1] = False
        tail &= self._top_p < 1
        return scores.masked_fill(tail.scatter(-1, ids, tail), float("-inf"))


class Codebook0Rules:
    """What may be drawn for codebook 0: a penalty on codes drawn before, and ids that are no codes.

    vocab ids from ``vocab - 1024`` on are not codes; of those only eos may be drawn, and not among the first two.
    seen: bool [slots, vocab], the codes drawn before.
    """

    SPECIAL_IDS = 1024
    MIN_TOKENS = 2

    def __init__(self, vocab: int, eos: int, slots: int, device: torch.device) -> None:
        self.eos = eos
        self.seen = torch.zeros(slots, vocab, dtype=torch.bool, device=device)
        forbidden = torch.zeros(2, vocab, dtype=torch.bool, device=device)
        forbidden[:, vocab - self.SPECIAL_IDS :] = True
        forbidden[0, eos] = False
        forbidden[1, eos] = True
        self._forbidden = forbidden
        self._true = torch.ones((), dtype=torch.bool, device=device)

    def forget(self, slots: Tensor) -> None:
        """New requests take slots [n]."""
        self.seen.index_fill_(0, slots, False)

    def remember(self, slots: Tensor, codes: Tensor) -> None:
        """codes [rows] were drawn in slots [rows]."""
        self.seen.index_put_((slots, codes), self._true)

    def apply(self, logits: Tensor, slots: Tensor, penalty: Tensor, drawn: Tensor) -> Tensor:
        """float32 logits [rows, vocab] of slots [rows], with penalty [rows, 1] and drawn [rows] tokens so far."""
        penalized = torch.where(logits < 0, logits * penalty, logits / penalty)
        logits = torch.where(self.seen[slots], penalized, logits)
        early = (drawn < self.MIN_TOKENS).long()
        return logits.masked_fill(self._forbidden[early], float("-inf"))

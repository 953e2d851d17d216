"""Samples codes from logits, with sampling parameters per row and counter-based random numbers (SPEC 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX2 = 0x94D049BB133111EB - (1 << 64)


def uniforms(seeds: Tensor, frames: Tensor, codebooks: int) -> Tensor:
    """Return random numbers, float64 [rows, codebooks] in [0, 1), for int64 seeds [rows] and frame numbers [rows]."""
    books = torch.arange(1, codebooks + 1, device=seeds.device)
    counters = frames[:, None] * codebooks + books
    bits = _mix(_mix(seeds)[:, None] + counters * _GOLDEN)
    return _shift(bits, 32).double() * 2.0**-32


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _MIX1
    z = (z ^ _shift(z, 27)) * _MIX2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    """Shift right logically; torch's own shift is arithmetic."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


@dataclass(frozen=True, slots=True)
class Draws:
    """Sampling parameters for the codes of one model. temperature 0 is greedy; top_k 0 and top_p 1 are off."""

    temperature: float
    top_k: int
    top_p: float


class Sampler:
    """Samples one code per row from float32 logits [rows, vocab].

    Rows are independent: a row's code does not depend on the parameters of other rows.
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
        """Return ids int64 [rows], by inverse transform of ``uniform``, float64 [rows] in [0, 1)."""
        if self._all_greedy:
            return logits.argmax(-1)
        distribution = self.probabilities(logits).cumsum(-1, dtype=torch.float64)
        targets = uniform[:, None] * distribution[:, -1:]
        drawn = torch.searchsorted(distribution, targets, right=True).squeeze(-1).clamp_(max=logits.shape[-1] - 1)
        return drawn if self._greedy is None else torch.where(self._greedy, logits.argmax(-1), drawn)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the distribution, float32 [rows, vocab], after temperature, top-k (which keeps ties) and top-p."""
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
        """Return each row's smallest score that may be sampled [rows, 1]. top: its largest scores, descending."""
        if self._one_k is not None:
            return top[:, -1:]
        threshold = top.gather(-1, (self._ranks.clamp(1, top.shape[-1]) - 1).expand(len(top), 1))
        return threshold.masked_fill(self._ranks == 0, float("-inf"))

    def _keep_top_p(self, scores: Tensor) -> Tensor:
        """Keep the smallest set of most likely ids whose mass reaches top_p; it is never empty."""
        ordered, ids = torch.sort(scores, dim=-1, stable=True)
        tail = torch.softmax(ordered, -1).cumsum(-1) <= 1 - self._top_p
        tail[:, -1] = False
        tail &= self._top_p < 1
        return scores.masked_fill(tail.scatter(-1, ids, tail), float("-inf"))


class Codebook0Rules:
    """Sampling rules of codebook 0: a repetition penalty on codes sampled before, and a mask of special ids.

    Ids from ``vocab - 1024`` on are not codes. Of those only eos may be sampled, and not as one of the first two
    tokens. seen: bool [slots, vocab], the codes sampled before.
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
        """Clear the seen codes of slots [n] for new requests."""
        self.seen.index_fill_(0, slots, False)

    def remember(self, slots: Tensor, codes: Tensor) -> None:
        """Mark codes [rows] as seen in slots [rows]."""
        self.seen.index_put_((slots, codes), self._true)

    def apply(self, logits: Tensor, slots: Tensor, penalty: Tensor, drawn: Tensor) -> Tensor:
        """Return float32 logits [rows, vocab] of slots [rows] with the rules applied.

        penalty: [rows, 1], the repetition penalty; drawn: [rows], the number of tokens sampled so far.
        """
        penalized = torch.where(logits < 0, logits * penalty, logits / penalty)
        logits = torch.where(self.seen[slots], penalized, logits)
        early = (drawn < self.MIN_TOKENS).long()
        return logits.masked_fill(self._forbidden[early], float("-inf"))

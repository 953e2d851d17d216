"""Trains the aligner's network within a time limit."""

from __future__ import annotations

import time

import torch
from torch import Tensor
from torch.nn import functional as F

from scripts.train_aligner.augment import augment, interpolated, mel_power, positions, random_rate, scaled_log
from scripts.train_aligner.batches import Batch
from scripts.train_aligner.network import AlignerNetwork
from scripts.train_pocket.schedule import TimedSchedule

_SPREAD = 0.3
"""Standard deviation of a letter's position in its word around the frame's, both from 0 to 1."""
_PHONEME_WEIGHT = 0.3
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 0.01
_REPORT_SECONDS = 10.0


class Trainer:
    """Trains ``network`` for ``minutes``."""

    def __init__(self, network: AlignerNetwork, minutes: float) -> None:
        self._network = network.train()
        self._optimizer = torch.optim.AdamW(network.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        self._schedule = TimedSchedule(minutes)
        self._began = self._reported = time.monotonic()
        self._losses: list[Tensor] = []

    @property
    def done(self) -> bool:
        """Whether the time is over."""
        return self._schedule.progress >= 1.0

    def step(self, batch: Batch) -> None:
        """Take one step, and report every few seconds."""
        self._schedule.step([self._optimizer])
        losses = torch.stack(batch_losses(self._network, batch))
        self._optimizer.zero_grad(set_to_none=True)
        (losses[0] + _PHONEME_WEIGHT * losses[1]).backward()
        torch.nn.utils.clip_grad_norm_(self._network.parameters(), 1.0)
        self._optimizer.step()
        self._losses.append(losses.detach())
        if time.monotonic() - self._reported > _REPORT_SECONDS or self.done:
            self._report()

    def _report(self) -> None:
        word, phoneme = torch.stack(self._losses).mean(0).tolist()
        self._reported, self._losses = time.monotonic(), []
        print(
            f"aligner wall_s={self._reported - self._began:.0f} steps={self._schedule.steps} "
            f"loss={word:.4f} phoneme_loss={phoneme:.4f}",
            flush=True,
        )


def batch_losses(network: AlignerNetwork, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the loss of the words and the loss of the phonemes, with randomly changed audio."""
    with torch.no_grad():
        features = scaled_log(augment(mel_power(batch.samples)))
        at = positions(features.shape[1], random_rate(), features.device)
        features, nearest = interpolated(features, at), at.round().long()
    mask = batch.frame_mask[:, nearest]
    scores, phonemes = network(features, mask, batch.ids, batch.token_mask)
    word = -_target(scores, batch, nearest)
    return (word * mask).sum() / mask.sum(), F.cross_entropy(
        phonemes.flatten(0, 1), batch.phonemes[:, nearest].flatten()
    )


def _target(scores: Tensor, batch: Batch, nearest: Tensor) -> Tensor:
    """Return the log-probability [b, frames] of the letters of each frame's word, near the frame's position in it.

    For a frame of silence it is that of all boundaries: one silence sounds like another.
    """
    segments, token_segments = batch.segments[:, nearest, None], batch.token_segments[:, None]
    silent = (segments % 2 == 0) & (token_segments >= 0) & (token_segments % 2 == 0)
    same = (segments == token_segments) | silent
    distance = (batch.within[:, nearest, None] - batch.token_within[:, None]) / _SPREAD
    prior = torch.where(same, -0.5 * distance.square(), -1e4)
    return torch.logsumexp(scores + prior - torch.logsumexp(prior, 2, keepdim=True), 2).clamp(min=-20.0)

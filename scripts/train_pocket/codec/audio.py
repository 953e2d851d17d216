"""The audio shards in device memory, and random pieces of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.protocol.request import SAMPLES_PER_FRAME
from scripts.train_pocket.utterances import FIRST_RECORDED


class AudioPieces(NamedTuple):
    """samples: float32 [batch, frames * 1920]. labels: int64 [batch, frames, 4], the phoneme of each quarter frame."""

    samples: Tensor
    labels: Tensor


def shards(folder: Path) -> list[Path]:
    """Return the complete shards of a folder in order."""
    return sorted(folder.glob("shard-*.npz"))


class Audio:
    """The concatenated shards. Pieces start inside an utterance and may extend into the next one.

    recorded: share of the pieces that begin in people's recordings, 0 to 1; None for their share of the utterances.
    Raises FileNotFoundError without shards, ValueError for a share that is out of range or has no recordings.
    """

    def __init__(self, files: Sequence[Path], device: torch.device, recorded: float | None = None) -> None:
        if not files:
            raise FileNotFoundError("no audio shards found")
        samples, labels, starts, ids, total = [], [], [], [], 0
        for file in files:
            with np.load(file) as shard:
                samples.append(torch.from_numpy(shard["samples"]))
                labels.append(torch.from_numpy(shard["labels"]))
                ids.append(torch.from_numpy(shard["ids"]))
                starts.append(torch.from_numpy(shard["starts"]) // SAMPLES_PER_FRAME + total)
                total += len(labels[-1])
        self._samples = torch.cat(samples).to(device).view(-1, SAMPLES_PER_FRAME)
        self._labels = torch.cat(labels).to(device)
        bounds = torch.cat([part[:-1] for part in starts])
        self._starts, self._ends = bounds.to(device), torch.cat([part[1:] for part in starts]).to(device)
        self.frames = total
        is_recorded = torch.cat(ids).to(device) >= FIRST_RECORDED
        if recorded is not None and not 0 <= recorded <= 1:
            raise ValueError(f"the share of recordings must be from 0 to 1, got {recorded}")
        if recorded and not bool(is_recorded.any()):
            raise ValueError("there are no recordings of people in the shards of this process")
        share = is_recorded.double().mean() if recorded is None else recorded
        weights = torch.where(is_recorded, share / is_recorded.sum(), (1 - share) / (~is_recorded).sum())
        self._sums = weights.double().cumsum(0)

    def draw(self, batch: int, frames: int, generator: torch.Generator) -> AudioPieces:
        """Return random pieces with random loudness."""
        device = self._starts.device
        drawn = torch.rand(batch, device=device, dtype=torch.float64, generator=generator) * self._sums[-1]
        utterances = torch.searchsorted(self._sums, drawn, right=True).clamp(max=len(self._starts) - 1)
        offsets = (self._ends[utterances] - self._starts[utterances] - frames).clamp(min=0) + 1
        offset = (torch.rand(batch, device=device, generator=generator) * offsets).long()
        first = (self._starts[utterances] + offset).clamp(max=self.frames - frames)
        rows = first[:, None] + torch.arange(frames, device=device)
        loudness = 10 ** ((torch.rand(batch, 1, device=device, generator=generator) * 14 - 10) / 20)
        loudness = torch.where(torch.rand(batch, 1, device=device, generator=generator) < 0.5, loudness, 1.0)
        samples = (self._samples[rows].flatten(1).float() / 32768 * loudness).clamp(-1, 1)
        return AudioPieces(samples, self._labels[rows].long())

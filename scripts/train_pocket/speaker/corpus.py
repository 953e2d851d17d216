"""The teacher's audio in device memory, and random crops of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from scripts.train_pocket.speaker.shards import SAMPLE_RATE, Shard, shards, speakers_by_id

_READERS = 8


@dataclass(frozen=True, slots=True)
class Corpus:
    """samples: int16 [total]. starts, lengths, speakers: int64 [n]; speakers are indices into names."""

    samples: Tensor
    starts: Tensor
    lengths: Tensor
    speakers: Tensor
    names: list[str]

    def crops(self, utterances: Tensor, length: int, position: Tensor) -> Tensor:
        """Return a float32 crop of each utterance [batch, length]. Shorter utterances are repeated.

        position: [batch] in 0..1, from the first possible crop to the last.
        """
        max_offset = (self.lengths[utterances] - length).clamp(min=0)
        offsets = (position * (max_offset + 1)).long().minimum(max_offset)[:, None] + torch.arange(
            length, device=position.device
        )
        indices = self.starts[utterances, None] + offsets % self.lengths[utterances, None]
        return self.samples[indices].float() / 32768


@dataclass(frozen=True, slots=True)
class Split:
    """Indices of utterances. unseen: of held-out speakers. seen: held out of the other speakers. train: the others."""

    train: Tensor
    seen: Tensor
    unseen: Tensor


class Sampler:
    """Samples utterances: first a speaker, in proportion to the root of their number, then one of the speaker's."""

    def __init__(self, corpus: Corpus, utterances: Tensor) -> None:
        order = corpus.speakers[utterances].argsort(stable=True)
        self._utterances = utterances[order]
        self._counts = torch.bincount(corpus.speakers[utterances], minlength=len(corpus.names))
        self._firsts = self._counts.cumsum(0) - self._counts

    def draw(self, count: int) -> Tensor:
        """Return int64 [count], with replacement."""
        speakers = torch.multinomial(self._counts.float().sqrt(), count, replacement=True)
        within = (torch.rand(count, device=speakers.device) * self._counts[speakers]).long()
        return self._utterances[self._firsts[speakers] + within.minimum(self._counts[speakers] - 1)]


def load(folder: Path, plan: Path, hours: float, device: torch.device) -> Corpus:
    """Read complete shards until there are ``hours`` hours."""
    selected = _first_hours(folder, hours)
    by_id = speakers_by_id(plan)
    speaker_names = [by_id[number] for shard in selected for number in shard.ids.tolist()]
    names = sorted(set(speaker_names))
    index = {name: i for i, name in enumerate(names)}
    bases = np.cumsum([0] + [int(shard.starts[-1]) for shard in selected])
    starts = np.concatenate([shard.starts[:-1] + base for shard, base in zip(selected, bases, strict=False)])
    return Corpus(
        samples=_read_samples(selected, bases.tolist(), device),
        starts=torch.from_numpy(starts).to(device),
        lengths=torch.from_numpy(np.concatenate([np.diff(shard.starts) for shard in selected])).to(device),
        speakers=torch.tensor([index[name] for name in speaker_names], device=device),
        names=names,
    )


def split(corpus: Corpus, unseen_speakers: int, seed: int, *, held_back: int = 2, min_utterances: int = 8) -> Split:
    """Hold out random speakers (at most a tenth), and ``held_back`` utterances of speakers with ``min_utterances``."""
    speakers = corpus.speakers.cpu().numpy()
    count = len(corpus.names)
    kept_out = np.random.default_rng(seed).permutation(count)[: min(unseen_speakers, count // 10)]
    unseen = np.isin(speakers, kept_out)
    rank = _rank_within_speaker(speakers)
    seen = ~unseen & (rank < held_back) & (np.bincount(speakers)[speakers] >= min_utterances)
    train = ~(unseen | seen)
    return Split(*(torch.from_numpy(np.flatnonzero(part)).to(corpus.samples.device) for part in (train, seen, unseen)))


def _rank_within_speaker(speakers: np.ndarray) -> np.ndarray:
    """Return the number of earlier utterances of the same speaker, for each utterance."""
    order = np.argsort(speakers, kind="stable")
    counts = np.bincount(speakers)
    rank = np.empty(len(speakers), np.int64)
    rank[order] = np.arange(len(speakers)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank


def _first_hours(folder: Path, hours: float) -> list[Shard]:
    selected, samples = [], 0
    for shard in shards(folder):
        selected.append(shard)
        samples += int(shard.starts[-1])
        if samples >= hours * 3600 * SAMPLE_RATE:
            break
    return selected


def _read_samples(selected: list[Shard], bases: list[int], device: torch.device) -> Tensor:
    samples = torch.empty(bases[-1], dtype=torch.int16, device=device)

    def read(index: int) -> None:
        samples[bases[index] : bases[index + 1]] = torch.from_numpy(selected[index].samples()).to(device)

    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(read, range(len(selected))))
    return samples

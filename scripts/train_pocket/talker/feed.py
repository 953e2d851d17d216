"""An endless stream of batches, prefetched by worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from scripts.train_pocket.talker.batches import LENGTHS, Batch, batches, collate, padded_length
from scripts.train_pocket.talker.example_sampler import ExampleSampler
from scripts.train_pocket.talker.examples import Example

_PREFETCH = 4
"""Number of batches that each worker prefetches."""


class Rows(NamedTuple):
    """A ``Batch`` as tensors on a device; ids are int64."""

    text: Tensor
    codes: Tensor
    xvectors: Tensor
    xvector_rows: Tensor
    targets: Tensor
    before_frames: Tensor


@dataclass(frozen=True, slots=True)
class Share:
    """The utterances that a process reads: those whose number modulo ``world`` is ``rank``."""

    rank: int
    world: int


class _Stream(IterableDataset[Batch]):
    """The batches of one worker: its share of the utterances, shuffled in every epoch."""

    def __init__(self, sampler: ExampleSampler, positions: int, share: Share, seed: int) -> None:
        self._sampler, self._positions, self._share, self._seed = sampler, positions, share, seed

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        part = Share(self._share.rank * workers + worker, self._share.world * workers)
        random = np.random.default_rng((self._seed, part.rank))
        width = self._sampler.model.talker.transformer.hidden
        eos = self._sampler.model.talker.predictor.vocab
        return batches(self._examples(part, random), self._positions, width, eos, random)

    def _examples(self, part: Share, random: np.random.Generator) -> Iterator[Example]:
        """Yield examples endlessly, except for those that are too long."""
        trained, max_length = self._sampler.corpus.trained, LENGTHS[-1]
        epoch = 0
        while True:
            order = np.random.default_rng((self._seed, epoch)).permutation(len(trained))
            for number in order[part.rank % len(order) :: part.world]:
                example = self._sampler.example(trained[number], random)
                if len(example) <= max_length:
                    yield example
            epoch += 1


def feed(
    sampler: ExampleSampler, positions: int, share: Share, *, seed: int, workers: int, device: torch.device
) -> Iterator[Rows]:
    """Yield batches on the device endlessly, made by ``workers`` processes (0: by this one)."""
    loader = DataLoader(
        _Stream(sampler, positions, share, seed),
        batch_size=None,
        num_workers=workers,
        collate_fn=_unchanged,
        prefetch_factor=_PREFETCH if workers else None,
    )
    for batch in loader:
        yield on_device(batch, device)


def on_device(batch: Batch, device: torch.device) -> Rows:
    """Return the batch's arrays as tensors on the device."""
    tensors = [torch.from_numpy(array) for array in batch]
    if device.type == "cuda":
        tensors = [tensor.pin_memory() for tensor in tensors]
    moved = [tensor.to(device, non_blocking=True) for tensor in tensors]
    return Rows(*(tensor if tensor.is_floating_point() else tensor.long() for tensor in moved))


def held_back(sampler: ExampleSampler, positions: int, most: int, seed: int, device: torch.device) -> list[Rows]:
    """Return batches of up to ``most`` held-out utterances, the same in every run."""
    random = np.random.default_rng(seed)
    examples = [sampler.example(spoken, random) for spoken in sampler.corpus.held_back[:most]]
    talker = sampler.model.talker
    groups: dict[int, list[Example]] = {}
    for example in examples:
        if len(example) <= LENGTHS[-1]:
            groups.setdefault(padded_length(len(example)), []).append(example)
    return [
        on_device(collate(group[first : first + most], talker.transformer.hidden, eos, random), device)
        for length, group in groups.items()
        for eos, most in [(talker.predictor.vocab, max(1, positions // length))]
        for first in range(0, len(group), most)
    ]


def _unchanged(batch: Any) -> Any:
    """Return the arrays unchanged. Tensors would be passed in shared memory, which is limited in containers."""
    return batch

"""Batches made by worker processes ahead of the training, endlessly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from scripts.train_pocket.talker.batches import LENGTHS, Batch, batches, collate, padded
from scripts.train_pocket.talker.draws import Drawing
from scripts.train_pocket.talker.examples import Example

_AHEAD = 4
"""Batches that each worker makes ahead."""


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
    """Which part of the utterances a process reads: those of number ``rank`` modulo ``world``."""

    rank: int
    world: int


class _Stream(IterableDataset[Batch]):
    """A worker's batches: its share of the utterances, shuffled anew in every epoch."""

    def __init__(self, drawing: Drawing, positions: int, share: Share, seed: int) -> None:
        self._drawing, self._positions, self._share, self._seed = drawing, positions, share, seed

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        part = Share(self._share.rank * workers + worker, self._share.world * workers)
        random = np.random.default_rng((self._seed, part.rank))
        width = self._drawing.model.talker.transformer.hidden
        eos = self._drawing.model.talker.predictor.vocab
        return batches(self._examples(part, random), self._positions, width, eos, random)

    def _examples(self, part: Share, random: np.random.Generator) -> Iterator[Example]:
        """Endless; examples that are too long are left out."""
        trained, longest = self._drawing.corpus.trained, LENGTHS[-1]
        epoch = 0
        while True:
            order = np.random.default_rng((self._seed, epoch)).permutation(len(trained))
            for number in order[part.rank % len(order) :: part.world]:
                example = self._drawing.example(trained[number], random)
                if len(example) <= longest:
                    yield example
            epoch += 1


def feed(
    drawing: Drawing, positions: int, share: Share, *, seed: int, workers: int, device: torch.device
) -> Iterator[Rows]:
    """Batches on the device for ever, made by ``workers`` processes (0: by this one)."""
    loader = DataLoader(
        _Stream(drawing, positions, share, seed),
        batch_size=None,
        num_workers=workers,
        collate_fn=_unchanged,
        prefetch_factor=_AHEAD if workers else None,
    )
    for batch in loader:
        yield on_device(batch, device)


def on_device(batch: Batch, device: torch.device) -> Rows:
    """The batch's arrays as tensors."""
    tensors = [torch.from_numpy(array) for array in batch]
    if device.type == "cuda":
        tensors = [tensor.pin_memory() for tensor in tensors]
    moved = [tensor.to(device, non_blocking=True) for tensor in tensors]
    return Rows(*(tensor if tensor.is_floating_point() else tensor.long() for tensor in moved))


def held_back(drawing: Drawing, positions: int, most: int, seed: int, device: torch.device) -> list[Rows]:
    """Batches of at most ``most`` utterances that are not trained on, the same in every run."""
    random = np.random.default_rng(seed)
    examples = [drawing.example(spoken, random) for spoken in drawing.corpus.held_back[:most]]
    talker = drawing.model.talker
    groups: dict[int, list[Example]] = {}
    for example in examples:
        if len(example) <= LENGTHS[-1]:
            groups.setdefault(padded(len(example)), []).append(example)
    return [
        on_device(collate(group[first : first + most], talker.transformer.hidden, eos, random), device)
        for length, group in groups.items()
        for eos, most in [(talker.predictor.vocab, max(1, positions // length))]
        for first in range(0, len(group), most)
    ]


def _unchanged(batch: Any) -> Any:
    """Arrays travel through a pipe; as tensors they would need shared memory, which containers are short of."""
    return batch

"""An encoder of recordings in captured graphs: a batch is one upload, one launch and one download."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.lane import Lane, Mark
from engine.request import SAMPLE_RATE

_COUNTS = (1, 2, 4, 8)
_SECONDS = (4, 8, 12, 16, 22, 30)
_MOST_SECONDS = 32
"""Of a batch: its largest tensors are 196 MB."""
_WASTE = 1.5
"""How much more than its recordings' own batches a batch may be, for what is saved by having one."""


class BatchSizes:
    """(recordings, samples of each) of the batches there are. A recording that is shorter is filled up."""

    def __init__(self, sizes: Iterable[tuple[int, int]]) -> None:
        self.all = sorted(sizes, key=_area)

    def smallest(self, count: int, longest: int) -> tuple[int, int] | None:
        """The batch in which ``count`` recordings of at most ``longest`` samples cost least, if there is one."""
        return next((size for size in self.all if size[0] >= count and size[1] >= longest), None)

    def together(self, lengths: Iterable[int]) -> int:
        """How many of the first recordings, of so many samples, are best one batch: 0 if none holds the first."""
        best, longest, alone = 0, 0, 0
        for count, length in enumerate(lengths, 1):
            longest = max(longest, length)
            size, own = self.smallest(count, longest), self.smallest(1, length)
            if size is None or own is None:
                break
            alone += _area(own)
            if _area(size) <= _WASTE * alone:
                best = count
        return best


def captured_sizes() -> BatchSizes:
    """Those that a GPU has: 30 s of one recording, 4 s of eight."""
    return BatchSizes(
        (count, seconds * SAMPLE_RATE) for count in _COUNTS for seconds in _SECONDS if count * seconds <= _MOST_SECONDS
    )


class EncodedFlight:
    """A batch on its way."""

    def __init__(self, encoded: Tensor, mark: Mark) -> None:
        self._encoded, self._mark = encoded, mark

    def collect(self) -> NDArray[np.generic]:
        """What became of the recordings, a row each, when it is there. Good until the encoder's next batch."""
        self._mark.synchronize()
        return self._encoded.numpy()


class GraphedEncoder:
    """An encoder's batches of all ``sizes``, captured in ``lane``.

    work: recordings float32 [rows, n], and what of each is its own as int64 [rows], to a tensor [rows, *shape(n)] of
    ``dtype``. It must not wait for the device. shortest: samples of a recording that it can take.
    """

    @torch.inference_mode()
    def __init__(
        self,
        work: Callable[[Tensor, Tensor], Tensor],
        lane: Lane,
        sizes: BatchSizes,
        *,
        shape: Callable[[int], tuple[int, ...]],
        dtype: torch.dtype,
        shortest: int,
    ) -> None:
        self._work, self._lane, self._sizes, self._shape, self._shortest = work, lane, sizes, shape, shortest
        samples, rows = max(map(_area, sizes.all)), max(count for count, _ in sizes.all)
        encoded = max(count * int(np.prod(shape(longest))) for count, longest in sizes.all)
        self._up, self._up_lengths = lane.pinned(samples, torch.float32), lane.pinned(rows, torch.int64)
        self._down = lane.pinned(encoded, dtype)
        with lane.inside():
            self._samples = torch.zeros(samples, device=lane.device)
            self._lengths = torch.zeros(rows, dtype=torch.int64, device=lane.device)
            self._encoded = torch.zeros(encoded, dtype=dtype, device=lane.device)
            self._launches = {size: self._captured(size) for size in reversed(sizes.all)}
            lane.mark().synchronize()

    @torch.inference_mode()
    def launch(self, recordings: Sequence[NDArray[np.float32]]) -> EncodedFlight:
        """Begin with recordings of which ``sizes`` has a batch. The one before must have been collected."""
        size = self._sizes.smallest(len(recordings), max(map(len, recordings)))
        if size is None:
            raise ValueError(f"no batch of {len(recordings)} recordings as long as these was captured")
        self._fill(recordings, size)
        shape = (len(recordings), *self._shape(size[1]))
        encoded = int(np.prod(shape))
        with self._lane.inside():
            self._samples[: _area(size)].copy_(self._up[: _area(size)], non_blocking=True)
            self._lengths[: size[0]].copy_(self._up_lengths[: size[0]], non_blocking=True)
            self._launches[size]()
            self._down[:encoded].copy_(self._encoded[:encoded], non_blocking=True)
            mark = self._lane.mark()
        return EncodedFlight(self._down[:encoded].view(shape), mark)

    def _fill(self, recordings: Sequence[NDArray[np.float32]], size: tuple[int, int]) -> None:
        """The batch in pinned memory. What is left of the one before is behind an end, or in a short row of nobody."""
        rows, lengths = self._up[: _area(size)].view(size).numpy(), self._up_lengths.numpy()
        lengths[:] = self._shortest
        for row, recording in zip(rows, recordings, strict=False):
            row[: len(recording)] = recording
        lengths[: len(recordings)] = [len(recording) for recording in recordings]

    def _captured(self, size: tuple[int, int]) -> Callable[[], None]:
        count, longest = size
        samples, lengths = self._samples[: _area(size)].view(size), self._lengths[:count]
        shape = (count, *self._shape(longest))
        encoded = self._encoded[: int(np.prod(shape))].view(shape)
        lengths.fill_(longest)

        def work() -> None:
            encoded.copy_(self._work(samples, lengths))

        return self._lane.captured(work)


def _area(size: tuple[int, int]) -> int:
    return size[0] * size[1]

"""Decodes chunks of many streams in plain PyTorch. Each stream's decoder state is a row of an arena."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from engine.code2wav.base import Decoder, PendingBatch
from engine.code2wav.prefix_cache import PrefixCache
from engine.models.code2wav import Code2WavModel
from engine.models.code2wav_blocks import StateShape
from engine.protocol.request import CODEBOOKS
from engine.protocol.samples import to_int16

_WARM_UP_S = 1.0
"""Maximum time of the warm-up after its first batch. oneDNN prepares each convolution for each shape."""
_WARM_UP_INT16_S = 0.25
"""The same with 16-bit integers, whose kernels do not depend on the shape."""


class Arena:
    """Decoder state of all streams: one tensor [rows, *shape] per state tensor (SPEC 9.2)."""

    def __init__(self, states: Sequence[StateShape], rows: int, device: torch.device) -> None:
        self._device = device
        self._tensors = [torch.zeros((rows, *state.shape), dtype=state.dtype, device=device) for state in states]
        self._free = list(range(rows))

    @property
    def free_rows(self) -> int:
        """Number of streams that can still begin."""
        return len(self._free)

    def acquire(self) -> int:
        """Allocate a row for a new stream. Its state is zero."""
        row = self._free.pop()
        for tensor in self._tensors:
            tensor[row] = 0
        return row

    def release(self, row: int) -> None:
        """Free the row of a stream that has ended."""
        self._free.append(row)

    def gather(self, rows: Sequence[int]) -> list[Tensor]:
        """Return the state of ``rows``, one tensor [len(rows), *shape] each. For a single row these are views."""
        if len(rows) == 1:
            return [tensor[rows[0]].unsqueeze(0) for tensor in self._tensors]
        index = torch.tensor(rows, device=self._device)
        return [tensor.index_select(0, index) for tensor in self._tensors]

    def scatter(self, rows: Sequence[int], state: Sequence[Tensor]) -> None:
        """Replace the state of ``rows``."""
        if len(rows) == 1:
            for tensor, new in zip(self._tensors, state, strict=True):
                tensor[rows[0]] = new[0]
            return
        index = torch.tensor(rows, device=self._device)
        for tensor, new in zip(self._tensors, state, strict=True):
            tensor.index_copy_(0, index, new)


class CompletedBatch(PendingBatch):
    """A ``PendingBatch`` that is done when it is created."""

    done = True

    def __init__(self, samples: NDArray[np.int16]) -> None:
        self._samples = samples

    @override
    def collect(self) -> NDArray[np.int16]:
        return self._samples


class StreamDecoder(Decoder):
    """Decodes in plain PyTorch, float32. It is the reference implementation of every other decoder."""

    padded = False

    def __init__(self, model: Code2WavModel, rows: int) -> None:
        self._model = model
        self._arena = Arena(model.states, rows, model.device)
        self.prefix_cache = PrefixCache()

    @property
    @override
    def free_rows(self) -> int:
        return self._arena.free_rows

    @override
    @torch.inference_mode()
    def begin(self, context: NDArray[np.int16] | None) -> int:
        state = None if context is None else self.prefix_cache.get(context, lambda: self._prefill(context))
        row = self._arena.acquire()
        if state is not None:
            self._arena.scatter([row], state)
        return row

    def warm_up(self, shapes: Iterable[tuple[int, int]]) -> None:
        """Decode batches of (streams, frames), which initializes what depends on their shape.

        Stops when its time is over, and requests then pay for the other shapes: initialization is a small part of the
        time that a slower model takes.
        """
        limit = _WARM_UP_INT16_S if self._model.dtype == torch.int16 else _WARM_UP_S
        end: float | None = None  # from the first batch on, which may have to compile
        for streams, frames in shapes:
            if end is not None and time.monotonic() > end:
                return
            rows = [self.begin(None) for _ in range(streams)]
            self.decode(rows, np.zeros((streams, frames, CODEBOOKS), np.int16))
            for row in rows:
                self.end(row)
            end = end or time.monotonic() + limit

    @override
    def end(self, row: int) -> None:
        self._arena.release(row)

    @override
    def launch(self, rows: Sequence[int], codes: NDArray[np.int16]) -> CompletedBatch:
        return CompletedBatch(to_int16(self.decode(rows, codes)))

    @override
    @torch.inference_mode()
    def decode(self, rows: Sequence[int], codes: NDArray[np.int16]) -> NDArray[np.float32]:
        frames = torch.from_numpy(codes.astype(np.int64)).to(self._model.device)
        samples, state = self._model.decode(frames, self._arena.gather(rows))
        self._arena.scatter(rows, state)
        decoded: NDArray[np.float32] = samples.cpu().numpy()
        return decoded

    def _prefill(self, context: NDArray[np.int16]) -> list[Tensor]:
        frames = torch.from_numpy(context.astype(np.int64))[None].to(self._model.device)
        blank = [
            torch.zeros((1, *each.shape), dtype=each.dtype, device=self._model.device) for each in self._model.states
        ]
        return [tensor.clone() for tensor in self._model.prefill(frames, blank)]

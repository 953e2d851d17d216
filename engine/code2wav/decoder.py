"""Chunks of many streams through the Code2Wav model, each stream's state in the arena."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.code2wav.arena import Arena
from engine.models.code2wav import Code2WavModel
from engine.request import CODEBOOKS

_PRIMED_KEPT = 16


class StreamDecoder:
    """Begin a stream, decode its frames in order, end it. Not thread-safe.

    hits, misses: how often the state after a reference was at hand, and how often it had to be made.
    """

    def __init__(self, model: Code2WavModel, rows: int) -> None:
        self._model = model
        self._arena = Arena(model.states, rows, model.device)
        self._primed: OrderedDict[bytes, list[Tensor]] = OrderedDict()
        self.hits = self.misses = 0

    @property
    def free_rows(self) -> int:
        """How many more streams can begin."""
        return self._arena.free_rows

    @torch.inference_mode()
    def begin(self, context: NDArray[np.int16] | None) -> int:
        """A row for a new stream, which follows the frames ``context`` [R, 16] if there are any."""
        state = None if context is None else self._after(context)
        row = self._arena.acquire()
        if state is not None:
            self._arena.scatter([row], state)
        return row

    def warm_up(self, shapes: Iterable[tuple[int, int]]) -> None:
        """Decode batches of (streams, frames), so that no listener waits for what is made on first use."""
        for streams, frames in shapes:
            rows = [self.begin(None) for _ in range(streams)]
            self.decode(rows, np.zeros((streams, frames, CODEBOOKS), np.int16))
            for row in rows:
                self.end(row)

    def end(self, row: int) -> None:
        """The stream of ``row`` is over."""
        self._arena.release(row)

    @torch.inference_mode()
    def decode(self, rows: Sequence[int], codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """codes [streams, frames, 16] that come next in ``rows`` -> samples [streams, frames * 1920]."""
        frames = torch.from_numpy(codes.astype(np.int64)).to(self._model.device)
        samples, state = self._model.decode(frames, self._arena.gather(rows))
        self._arena.scatter(rows, state)
        heard: NDArray[np.float32] = samples.cpu().numpy()
        return heard

    def _after(self, context: NDArray[np.int16]) -> list[Tensor]:
        """The state after a reference; kept for the voices used last, since many requests share one."""
        key = hashlib.sha256(context.tobytes()).digest()
        state = self._primed.pop(key, None)
        self.hits += state is not None
        self.misses += state is None
        if state is None:
            frames = torch.from_numpy(context.astype(np.int64))[None].to(self._model.device)
            blank = [
                torch.zeros((1, *each.shape), dtype=each.dtype, device=self._model.device)
                for each in self._model.states
            ]
            state = [tensor.clone() for tensor in self._model.prime(frames, blank)]
        self._primed[key] = state
        if len(self._primed) > _PRIMED_KEPT:
            self._primed.popitem(last=False)
        return state

"""A Code2Wav decoder that computes in a thread which it shares with the talker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from engine.code2wav.base import Decoder, PendingBatch
from engine.device.compute_thread import ComputeThread


class ComputeThreadDecoder(Decoder):
    """A ``Decoder`` that runs in a ComputeThread."""

    def __init__(self, decoder: Decoder, compute: ComputeThread) -> None:
        self.padded, self.prefix_cache = decoder.padded, decoder.prefix_cache
        self._decoder, self._compute = decoder, compute

    @property
    @override
    def free_rows(self) -> int:
        return self._decoder.free_rows

    @override
    def begin(self, context: NDArray[np.int16] | None) -> int:
        return self._compute.run(self._decoder.begin, context)

    @override
    def end(self, row: int) -> None:
        self._decoder.end(row)

    @override
    def launch(self, rows: Sequence[int], codes: NDArray[np.int16]) -> PendingBatch:
        return self._compute.run(self._decoder.launch, rows, codes)

    @override
    def decode(self, rows: Sequence[int], codes: NDArray[np.int16]) -> NDArray[np.float32]:
        return self._compute.run(self._decoder.decode, rows, codes)

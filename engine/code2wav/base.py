"""Interface between stage 2 and its decoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.code2wav.prefix_cache import PrefixCache


class PendingBatch(Protocol):
    """A batch in flight."""

    @property
    def done(self) -> bool:
        """Whether decoding is finished, so that ``collect`` returns at once."""

    def collect(self) -> NDArray[np.int16]:
        """Wait for the samples and return them: [streams, frames * 1920].

        The array is valid until the second ``launch`` after this batch's.
        """


class Decoder(Protocol):
    """Decodes streams: begin a stream, decode its frames in order, end it. Not thread-safe.

    padded: the decoder pads a batch to the next size it supports. So batches are not limited to the sizes in
    ``BATCHES``.
    prefix_cache: the states after the references of streams.
    """

    padded: bool
    prefix_cache: PrefixCache

    @property
    def free_rows(self) -> int:
        """Number of streams that can still begin."""

    def begin(self, context: NDArray[np.int16] | None) -> int:
        """Begin a stream and return its row. The stream continues after the frames ``context`` [R, 16], if given."""

    def end(self, row: int) -> None:
        """End the stream of ``row`` and free the row."""

    def launch(self, rows: Sequence[int], codes: NDArray[np.int16]) -> PendingBatch:
        """Start decoding codes [streams, frames, 16], the next frames of ``rows``. ``frames`` is one of ``CHUNKS``.

        On a GPU at most two batches can be in flight: before the second launch after a batch, its samples must be read.
        """

    def decode(self, rows: Sequence[int], codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decode any number of frames, and wait for the samples [streams, frames * 1920]."""

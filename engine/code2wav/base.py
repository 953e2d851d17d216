"""What stage 2 asks of a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class PendingBatch(Protocol):
    """A batch that is being decoded."""

    @property
    def done(self) -> bool:
        """Whether its samples are there."""

    def collect(self) -> NDArray[np.int16]:
        """Wait for its samples: [streams, frames * 1920]. They stand until the second launch from then."""


class Decoder(Protocol):
    """Begin a stream, decode its frames in order, end it. Not thread-safe.

    padded: whether batches of any number of streams are as good as those of ``BATCHES``: they are filled up.
    """

    padded: bool

    @property
    def hits(self) -> int:
        """How often the state after a reference was at hand."""

    @property
    def misses(self) -> int:
        """How often it had to be made."""

    @property
    def free_rows(self) -> int:
        """How many more streams can begin."""

    def begin(self, context: NDArray[np.int16] | None) -> int:
        """A row for a new stream, which follows the frames ``context`` [R, 16] if there are any."""

    def end(self, row: int) -> None:
        """The stream of ``row`` is over."""

    def launch(self, rows: Sequence[int], codes: NDArray[np.int16]) -> PendingBatch:
        """Begin to decode codes [streams, frames, 16] that come next in ``rows``; frames as in ``CHUNKS``.

        On a GPU one batch at a time: the one before must have landed.
        """

    def decode(self, rows: Sequence[int], codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """The samples of as many frames as there are, [streams, frames * 1920], waited for."""

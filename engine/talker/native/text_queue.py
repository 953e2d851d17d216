"""The text that is spoken while it is read: one row beside each frame (SPEC 3, 4)."""

from __future__ import annotations

from torch import Tensor


class TextQueue:
    """Rows [hidden] for frame 0, 1, ...; once it is closed and read to its end, the pad row for ever.

    While it is open it can be appended to, and an utterance that has read all of it has to wait.
    """

    def __init__(self, rows: Tensor, pad: Tensor, *, closed: bool) -> None:
        self._rows = list(rows.unbind(0))
        self._pad = pad
        self._closed = closed

    def append(self, rows: Tensor, *, last: bool) -> None:
        """More rows [n, hidden]; ``last`` closes the queue. Appending to a closed queue is a ValueError."""
        if self._closed:
            raise ValueError("the text of this utterance is already complete")
        self._rows.extend(rows.unbind(0))
        self._closed = last

    def has(self, frame: int) -> bool:
        """Whether the row for ``frame`` is known."""
        return self._closed or frame < len(self._rows)

    def row(self, frame: int) -> Tensor:
        """The row to add to the embedding of ``frame``."""
        return self._rows[frame] if frame < len(self._rows) else self._pad

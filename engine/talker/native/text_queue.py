"""Text rows that are added to the frames' embeddings, one row per frame (SPEC 3, 4)."""

from __future__ import annotations

from torch import Tensor


class TextQueue:
    """Text rows [hidden] for frames 0, 1, ...; after the last row of a closed queue, always the pad row.

    Rows can be appended while the queue is open. An utterance that has used all rows of an open queue must wait.
    """

    def __init__(self, rows: Tensor, pad: Tensor, *, closed: bool) -> None:
        self._rows = list(rows.unbind(0))
        self._pad = pad
        self._closed = closed

    def append(self, rows: Tensor, *, last: bool) -> None:
        """Append rows [n, hidden]; ``last`` closes the queue. Raises ValueError when the queue is closed."""
        if self._closed:
            raise ValueError("the text of this utterance is already complete")
        self._rows.extend(rows.unbind(0))
        self._closed = last

    def has(self, frame: int) -> bool:
        """Return whether the row for ``frame`` is known."""
        return self._closed or frame < len(self._rows)

    def row(self, frame: int) -> Tensor:
        """Return the row to add to the embedding of ``frame``."""
        return self._rows[frame] if frame < len(self._rows) else self._pad
